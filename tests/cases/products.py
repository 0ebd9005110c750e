"""Products of matrices and tensors."""

import numpy as np

from .base import LAYOUTS, A, Case, F, S, Z


def _matmul_samples():
    shapes = [
        ((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((1, 3), (3, 1)),
        ((2, 1), (1, 3)), ((2, 2, 3), (3, 4)), ((2, 2, 3), (3,)), ((3,), (2, 3, 4)),
        ((2, 3), (2, 3, 2)), ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)),
        ((1, 2, 3), (2, 3, 2)), ((2, 2, 3), (1, 3, 2)), ((1, 1), (1, 1)), ((0, 3), (3, 2)),
        ((2, 0), (0, 2)), ((0, 2, 3), (3, 2)), ((2, 2, 3), (3, 0)), ((2, 2, 0), (0, 2)),
        ((2, 0, 3), (3, 2)), ((0,), (0,)), ((0,), (0, 2)), ((2, 0), (0,)),
    ]  # fmt: skip
    return [
        *(S(A(*s1), A(*s2)) for s1, s2 in shapes),
        *(S(A(2, 3, layout=layout), A(3, 2, layout="transposed")) for layout in LAYOUTS),
        S(A(2, 2, 3, layout="transposed"), A(3, 2, layout="reversed")),
        S(F(2, 3), Z(3, 2)),
    ]


def _tensordot_samples():
    one, two = A(2, 3, 4), A(3, 4, 2)
    return [
        S(A(2, 3), A(3, 4), axes=1), S(one, two), S(one, two, axes=0),
        S(A(3, 4, 2), A(3, 4, 2), axes=((0, 1), (0, 1))),
        S(A(3, 4, 2), A(4, 2, 3), axes=((1, 0), (0, 2))),
        S(A(3, 4, 2), A(4, 2, 3), axes=((-1, 0, 1), (1, 2, 0))),
        S(A(2, 3, 4), A(3, 2), axes=((-2,), (-2,))), S(A(2, 3), A(2), axes=([0], [0])),
        S(A(2, 3), A(2), axes=((), ())), S(A(3), A(3), axes=1), S(A(), A(2, 3), axes=0),
        S(A(2, 0), A(0, 3), axes=1), S(A(0, 2), A(2, 3), axes=1),
    ]  # fmt: skip


def _vecdot_samples():
    return [
        S(A(2, 3), A(2, 3)), S(A(3), A(3)), S(A(2, 3), A(3)), S(A(3), A(2, 3)),
        S(A(2, 1, 3), A(4, 3)), S(A(3, 2), A(3, 2), axis=-2), S(A(2, 3, 1), A(3, 4), axis=-2),
        S(A(0), A(0)), S(A(0, 3), A(3)), S(A(2, 0), A(2, 0)),
    ]  # fmt: skip


def _einsum_samples():
    pairs = [
        ("ij,jk->ik", (2, 3), (3, 4)), ("ij,kj", (2, 3), (4, 3)), ("ij,jk->ki", (2, 3), (3, 4)),
        ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("bij,jk->ibk", (2, 2, 3), (3, 2)),
        ("i,j->ij", (2,), (3,)), ("i,j->ji", (2,), (3,)), ("i,i->", (3,), (3,)),
        ("i,i", (3,), (3,)), ("i,i->i", (3,), (3,)), ("ij,j->ij", (2, 3), (3,)),
        ("j,ij->i", (3,), (2, 3)), ("ijk,kj->i", (2, 3, 4), (4, 3)),
        ("ijkl,jmln->ikmn", (2, 2, 3, 2), (2, 3, 2, 2)), ("ii,i->i", (3, 3), (3,)),
        ("ij,ik->", (2, 3), (2, 4)), ("ij,jk->k", (2, 3), (3, 4)), ("ij,k->ik", (2, 3), (4,)),
        (",ij->ij", (), (2, 3)), (" i j , j -> i ", (2, 3), (3,)),
        ("...ij,...jk->...ik", (2, 2, 3), (3, 2)), ("...ij,...jk", (4, 1, 2, 3), (2, 3, 2)),
        ("i...j,...j->...i", (2, 4, 3), (3,)), ("i...,i...->...", (2, 3), (2, 1, 3)),
        ("...,...", (2, 1), (3,)), ("ij,jk->ik", (2, 1), (3, 4)), ("ij,jk->ik", (2, 3), (1, 4)),
        ("ij,ij->ij", (1, 3), (2, 1)), ("aB,Bc", (2, 3), (3, 2)), ("ij,jk->ik", (2, 0), (0, 3)),
        ("ij,jk->ik", (0, 2), (2, 3)), ("i,j->ij", (0,), (3,)),
    ]  # fmt: skip
    single = [
        ("ij->ij", (2, 3)), ("ij->ji", (2, 3)), ("ji", (2, 3)), ("ij->i", (2, 3)), ("ij->", (2, 3)),
        ("ii", (3, 3)), ("ii->i", (3, 3)), ("iji->j", (3, 2, 3)), ("iiji->ji", (2, 2, 3, 2)),
        ("ijij->ji", (2, 3, 2, 3)), ("ijji", (2, 3, 3, 2)), ("...ii->...i", (2, 3, 3)),
        ("...", (2, 3)), ("i...->...", (2, 3)), ("ii->i", (1, 1)), ("ii->i", (0, 0)), ("->", ()),
    ]  # fmt: skip
    several = [
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("i,i,i->i", (3,), (3,), (3,)),
        ("i,ij,j", (2,), (2, 3), (3,)), ("ab,cd,bd,ac->", (2, 3), (2, 2), (3, 2), (2, 2)),
        ("...i,ij,...j->...", (2, 2), (2, 3), (3,)), ("a,b,c->cab", (2,), (3,), (2,)),
    ]  # fmt: skip
    return [S(words, *(A(*s) for s in shapes)) for words, *shapes in pairs + single + several]


CASES = [
    Case("matmul", _matmul_samples(), torch=True, complex=True, relative_to="matrix"),
    Case("matrix_transpose", [S(A(2, 3)), S(A(2, 3, 4)), S(A(0, 3))],
         lambda x: np.swapaxes(x, -1, -2), lambda torch, x: x.mT, complex=True),
    Case("tensordot", _tensordot_samples(),
         torch=lambda torch, x1, x2, axes=2: torch.tensordot(
             x1, x2, axes if isinstance(axes, int) else tuple(map(list, axes))),
         complex=True, relative_to="array"),
    Case("vecdot", _vecdot_samples(),
         torch=lambda torch, x1, x2, axis=-1: torch.linalg.vecdot(x1, x2, dim=axis), complex=True,
         relative_to="array"),
    Case("einsum", _einsum_samples(), torch=True, complex=True, relative_to="array"),
]  # fmt: skip
