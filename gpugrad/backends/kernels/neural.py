"""Twins of ops in gpugrad/ops/neural.py."""

twins: dict = {}
