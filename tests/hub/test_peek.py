"""A look at single tensors says what their values are, after a plan that keeps its bound."""

import json

import ml_dtypes
import numpy as np
import pytest

from model.header import FIRST_READ
from model.number_formats import fp8, mxfp4
from model.peek import FEW, peek, plan, read
from model.source import open_source
from model.source_files import OverBoundError
from tests.hub.checkpoints import INDEX, sharded, single, written
from tests.hub.server import Repo

NAME = "org/model"
rng = np.random.default_rng(5)
EXPERT = "language_model.model.layers.1.block_sparse_moe.experts.0.w1"
PACKED = rng.integers(0, 256, (300, 32), dtype=np.uint8)
EXPONENTS = rng.integers(100, 140, (300, 2), dtype=np.uint8)
CODES = rng.integers(0, 0x7F, (300, 200), dtype=np.uint8)
FACTORS = rng.uniform(0.1, 2, (3, 2)).astype("<f4")
ARRAYS = {
    "layers.0.weight": rng.normal(size=(40, 30)).astype("<f4"),
    "layers.0.bias": rng.normal(size=7).astype(ml_dtypes.bfloat16),
    "layers.1.odd": np.array([[np.nan, np.inf, 1.0], [-np.inf, 0.0, -2.0]], dtype="<f2"),
    "layers.1.scalar": np.array(2.5, dtype="<f8"),
    "layers.1.none": np.zeros((0, 4), dtype="<f4"),
    "layers.1.count": np.arange(100, dtype="<i8"),
    f"{EXPERT}.weight_packed": PACKED,
    f"{EXPERT}.weight_scale": EXPONENTS,
    "layers.2.q_proj.weight": CODES.view(ml_dtypes.float8_e4m3fn),
    "layers.2.q_proj.weight_scale_inv": FACTORS,
    "layers.3.q_proj.weight": CODES.view(ml_dtypes.float8_e4m3fn),
}
FP8_VALUES = fp8(CODES, FACTORS.astype(np.float64))


@pytest.fixture(params=["folder", "hub"])
def source(request, hub, tmp_path):
    if request.param == "folder":
        return open_source(str(written(single(ARRAYS), tmp_path / "folder")))
    hub.repos[NAME] = Repo(single(ARRAYS))
    return open_source(NAME)


def one(source, name, **more):
    reports = peek(source, name, **more)
    assert [report.name for report in reports] == [name]
    return reports[0]


def test_a_plain_tensor_is_described_as_it_is(source):
    report = one(source, "layers.0.weight")
    values = ARRAYS["layers.0.weight"].astype(np.float64)
    assert (report.dtype, report.shape, report.form) == ("F32", (40, 30), "plain")
    assert report.nbytes == values.size * 4
    assert report.values.mean == pytest.approx(values.mean())
    assert report.values.deviation == pytest.approx(values.std())
    assert report.values.minimum == values.min()
    assert (report.codes, report.scales, report.few) == ((), None, ())
    np.testing.assert_allclose(
        report.singular_values, np.linalg.svd(values, compute_uv=False), rtol=1e-10
    )


def test_small_tensors_are_given_whole(source):
    assert one(source, "layers.0.bias").few == tuple(
        ARRAYS["layers.0.bias"].astype(np.float64).tolist()
    )
    scalar = one(source, "layers.1.scalar")
    assert (scalar.shape, scalar.few, scalar.values.mean) == ((), (2.5,), 2.5)
    assert one(source, "layers.1.none").few == ()
    assert len(ARRAYS["layers.1.count"]) > FEW
    assert one(source, "layers.1.count").few == ()


def test_what_is_no_number_is_counted_and_keeps_nothing_from_being_said(source):
    report = one(source, "layers.1.odd")
    spread = report.values
    assert (spread.count, spread.nan, spread.plus_infinity, spread.minus_infinity) == (6, 1, 1, 1)
    assert (spread.zeros, spread.minimum, spread.maximum) == (1, -2.0, 1.0)
    assert report.no_singular_values == "some values are not finite"


def test_mxfp4_shows_its_codes_its_scales_and_its_values(source):
    values = mxfp4(PACKED, EXPONENTS)
    report = one(source, f"{EXPERT}.weight_packed")
    assert (report.form, report.stored_shape, report.shape) == ("mxfp4", (300, 32), (300, 64))
    assert report.nbytes == PACKED.size + EXPONENTS.size
    assert sum(report.codes) == values.size == report.values.count
    assert report.codes[5] == ((PACKED & 15) == 5).sum() + ((PACKED >> 4) == 5).sum()
    assert report.scales.maximum == 2.0 ** (int(EXPONENTS.max()) - 127)
    assert report.values.mean == pytest.approx(values.mean())
    assert report.singular_values[0] == pytest.approx(np.linalg.norm(values, 2))


def test_fp8_shows_its_codes_its_scales_and_its_values(source):
    report = one(source, "layers.2.q_proj.weight")
    assert (report.form, report.shape) == ("fp8", (300, 200))
    assert report.nbytes == CODES.size + FACTORS.nbytes
    assert report.codes == tuple(np.bincount(CODES.ravel(), minlength=256))
    assert report.scales.count == FACTORS.size
    assert report.values.rms == pytest.approx(np.sqrt(np.square(FP8_VALUES).mean()))


def test_codes_without_their_scale_are_shown_for_themselves(source):
    report = one(source, "layers.3.q_proj.weight")
    assert report.form == "plain"
    assert report.values.maximum == 448
    assert report.values.mean != pytest.approx(FP8_VALUES.mean())


def test_a_pattern_shows_each_packed_tensor_once(source):
    assert [report.name for report in peek(source, "*")] == sorted(
        name for name in ARRAYS if not name.endswith(("weight_scale", "weight_scale_inv"))
    )
    scale = one(source, f"{EXPERT}.weight_scale")
    assert (scale.form, scale.shape) == ("plain", (300, 2))


@pytest.mark.parametrize(
    "rows", [(0, 1), (0, 300), (1, 2), (127, 128), (127, 129), (128, 256), (255, 300)]
)
def test_rows_of_packed_tensors_are_those_of_the_whole(source, rows):
    part = slice(*rows)
    found = one(source, "layers.2.q_proj.weight", rows=rows)
    assert found.shape == (rows[1] - rows[0], 200)
    assert found.values.mean == pytest.approx(FP8_VALUES[part].mean())
    assert found.values.maximum == FP8_VALUES[part].max()
    found = one(source, f"{EXPERT}.weight_packed", rows=rows)
    assert found.values.mean == pytest.approx(mxfp4(PACKED, EXPONENTS)[part].mean())
    assert found.nbytes == (rows[1] - rows[0]) * 34
    assert found.no_singular_values == "only some rows were read"


def test_rows_of_plain_tensors_are_read_alone(source):
    found = one(source, "layers.0.weight", rows=(3, 5))
    assert (found.nbytes, found.shape) == (240, (2, 30))
    assert found.few == tuple(ARRAYS["layers.0.weight"][3:5].astype(np.float64).ravel().tolist())


@pytest.mark.parametrize("rows", [(0, 41), (5, 5), (6, 5), (-1, 5)])
def test_rows_that_are_not_there_are_refused(source, rows):
    with pytest.raises(ValueError, match=r"shape \[40, 30\], and no rows"):
        peek(source, "layers.0.weight", rows=rows)


def test_rows_that_end_inside_a_byte_are_refused(tmp_path):
    table = b'{"x":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}}'
    folder = tmp_path / "f4"
    written(
        {"model.safetensors": len(table).to_bytes(8, "little") + table + b"\x21\x43\x65"}, folder
    )
    source = open_source(str(folder))
    with pytest.raises(ValueError, match=r"rows of 1\.5 bytes"):
        peek(source, "x", rows=(0, 1))
    assert one(source, "x").few == (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)


def test_a_plan_says_what_it_would_read_and_reads_nothing(source, hub):
    asked = plan(source, "layers.*")
    wanted = [name for name in ARRAYS if name.startswith("layers.")]
    assert asked.nbytes == sum(ARRAYS[name].nbytes for name in wanted)
    sent, transferred = hub.sent, source.transferred
    assert len(asked.pieces) == len(wanted) - 1  # one is a scale
    assert (hub.sent, source.transferred) == (sent, transferred)
    read(asked)
    if source.revision:
        assert source.transferred - transferred == asked.nbytes


def test_a_bound_is_kept_to_the_byte(source, hub):
    peek(source, "layers.0.weight")
    assert plan(source, "layers.0.weight", bound=4_800).nbytes == 4_800
    sent = hub.sent
    with pytest.raises(OverBoundError, match=r"holds 4,800 bytes, and the bound is 4,799"):
        peek(source, "layers.0.weight", bound=4_799)
    assert hub.sent == sent


def test_a_refusal_offers_the_rows_that_fit(source):
    peek(source, "layers.0.weight", bound=400_000)
    with pytest.raises(OverBoundError) as caught:
        plan(source, "layers.0.weight", bound=1300)
    said = caught.value.args[0]
    assert "holds 4,800 bytes, and the bound is 1,300" in said
    assert "10 rows fit, as --rows 0:10" in said
    assert one(source, "layers.0.weight", rows=(0, 10), bound=1300).nbytes == 1200
    with pytest.raises(OverBoundError, match=r"Ask for fewer, or raise --bound\.$"):
        plan(source, "layers.*", bound=1300)


def test_a_bound_counts_the_lists_and_headers_that_a_look_needs(hub):
    big = {f"model.layers.{i}.w": np.zeros((50, 50), dtype="<f4") for i in range(30)}
    hub.repos[NAME] = Repo(sharded([big]))
    source = open_source(NAME)
    with pytest.raises(OverBoundError, match=r"model\.safetensors\.index\.json"):
        plan(source, "*.3.w", bound=100)
    assert source.transferred == 0
    index = source.files.sizes[INDEX]
    bound = index + FIRST_READ + 9_999
    with pytest.raises(OverBoundError, match=f"of which {index + FIRST_READ:,} went to lists"):
        plan(source, "*.3.w", bound=bound)
    # the index is in the cache, so what is left suffices
    assert len(peek(source, "*.3.w", bound=bound)) == 1


def test_a_type_that_is_not_shown_is_refused_in_words(tmp_path):
    folder = written(single({"x": np.zeros(3, dtype="<c8")}), tmp_path / "c")
    with pytest.raises(ValueError, match="'x' is stored as C64"):
        peek(open_source(str(folder)), "x")


def test_one_megabyte_of_a_large_remote_file_costs_little_more(hub, tmp_path):
    middle, wanted, size = 600 * 2**20, 2**20, 2**30
    places = {
        "front": ("F32", [middle // 4], [0, middle]),
        "wanted": ("BF16", [512, 1024], [middle, middle + wanted]),
        "rest": ("F32", [(size - middle - wanted) // 4], [middle + wanted, size]),
    }
    header = json.dumps(
        {
            n: dict(zip(("dtype", "shape", "data_offsets"), p, strict=True))
            for n, p in places.items()
        }
    ).encode()
    values = rng.normal(size=wanted // 2).astype(ml_dtypes.bfloat16)
    shard = tmp_path / "shard"
    with shard.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.seek(middle, 1)
        file.write(values.tobytes())
        file.truncate(8 + len(header) + size)
    hub.repos[NAME] = Repo({"config.json": b"{}", "model.safetensors": shard})
    source = open_source(NAME)
    report = one(source, "wanted")
    assert report.values.mean == pytest.approx(values.astype(np.float64).mean())
    assert hub.sent <= 1_200_000
    assert source.transferred == FIRST_READ + wanted
