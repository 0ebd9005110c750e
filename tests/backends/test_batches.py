"""Transfer of batches to a device: the values that arrive.

The order of copies and waits is tested in `cupy_stand_in/test_several_devices.py`.
"""

from functools import partial
from itertools import chain

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import data


@pytest.mark.gpu
@pytest.mark.skipif(not gg.cuda.is_available(), reason=str(gg.cuda.why_not()))
class TestOnDevice:
    """Batches keep their values until the last one, when every buffer was filled many times."""

    COLUMNS = (
        np.random.default_rng(0).standard_normal((103, 2, 3)), np.arange(103) * (1 + 2j),
        np.arange(103), np.arange(103).astype("float16"), np.zeros((103, 0), "float32"),
        np.asfortranarray(np.arange(206).reshape(103, 2) % 3 == 0),
        np.arange(206, dtype="uint8")[::2],
    )  # fmt: skip

    def loader(self, **options):
        return data.DataLoader(data.TensorDataset(*self.COLUMNS), 8, seed=1, **options)

    def check(self, batches, expected):
        batches = [*batches]  # all of them, before their values are looked at
        for x, y in zip(chain(*batches), chain(*expected), strict=True):
            assert x.device.startswith("cuda:")
            np.testing.assert_array_equal(x.cpu().numpy(), y.numpy(), strict=True)

    @pytest.mark.parametrize("shuffle", [False, True])
    @pytest.mark.parametrize("is_there", [False, True])
    @pytest.mark.parametrize("prefetch", [0, 2])
    def test_values(self, shuffle, is_there, prefetch):
        dataset = data.TensorDataset(*self.COLUMNS)
        for device in ("cuda", None) if is_there else ("cuda",):
            given = dataset.to("cuda") if is_there else dataset
            options = {"shuffle": shuffle, "seed": 1, "prefetch": prefetch, "device": device}
            self.check(data.DataLoader(given, 8, **options), self.loader(shuffle=shuffle))

    def test_nested_batches(self):
        samples = [{"x": (gg.ones(2) * i, i), "name": str(i)} for i in range(10)]

        def counted(batch):
            return [batch, gg.tensor(len(batch["name"]))]

        for prefetch in 0, 2:
            options = {"seed": 0, "transform": counted, "prefetch": prefetch}
            load = partial(data.DataLoader, samples, 4, True, **options)
            here, there = [*load(device=None)], [*load(device="cuda")]
            assert [b["name"] for b, _ in there] == [b["name"] for b, _ in here]
            self.check([b["x"] for b, _ in there], [b["x"] for b, _ in here])
            self.check([[n] for _, n in there], [[n] for _, n in here])

    def test_leaving_early_and_two_at_once(self):
        expected, kept = list(self.loader()), []
        for _ in range(5):
            loader = self.loader(device="cuda")
            for a, b in zip(loader, loader, strict=True):
                kept += [a, b]
                if len(kept) % 4 == 0:
                    break
        self.check(kept[::2], expected[:2] * 5)
        self.check(kept[1::2], expected[:2] * 5)

    def test_with_another_stream_for_each(self):
        batches, stream = iter(self.loader(device="cuda")), gg.cuda.Stream()
        kept = []
        for _ in range(6):
            kept.append(next(batches))
            with stream:
                kept.append(next(batches))
        stream.synchronize()
        self.check(kept, list(self.loader())[:12])
