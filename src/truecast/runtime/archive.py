"""A saved program: one file that another machine, or a later truecast, can read, run and look at.

A zip of versioned texts and jax.export's versioned StableHLO; no pickle. `manifest.json` names the format,
the fingerprint, the versions, the calling convention, and a BLAKE2b of each other member, so that a damaged
or foreign file is refused before anything of it is used.

    manifest.json  graph.txt  plan.txt  numerics.toml  program.stablehlo (text)  program.jax (jax.export)
    weights/0 ...  the bytes of the tensors the program owns, row-major, little-endian
"""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from jax import export
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from truecast import dtypes
from truecast.errors import TruecastError, UsageError
from truecast.files import appearing
from truecast.graph import Graph
from truecast.lowering.calling import Calling
from truecast.lowering.fingerprint import versions
from truecast.lowering.program import TARGETS, Backend, Program, Saved
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve

FORMAT = 1
_MANIFEST = "manifest.json"
_TEXTS = ("graph.txt", "plan.txt", "numerics.toml", "program.stablehlo", "program.jax")
# What readers of zip, JSON, pytrees and flatbuffers raise for bytes that were never, or are no longer, ours.
_UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError),
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError, NotImplementedError),
)
_LITERALS = (bool, int, float, str, type(None))


def save(program: Program, path: Path) -> None:
    """Writes the archive beside `path` and moves it there whole. Raises UsageError for what can't be kept."""
    members = {
        "graph.txt": str(program.graph).encode(),
        "plan.txt": str(program.plan).encode(),
        "numerics.toml": program.plan.numerics.to_toml().encode(),
        "program.stablehlo": program.stablehlo.encode(),
        "program.jax": bytes(program.to_exported().serialize()),
    }
    weights = {name: tensor for name, tensor in program.calling.bound.items() if not isinstance(tensor, FakeTensor)}
    manifest = {
        "format": FORMAT,
        "fingerprint": program.fingerprint,
        "target": program.target,
        "versions": dict(versions()),
        "calling": _calling_to_json(program.calling),
        "weights": list(weights),
        "members": {},
    }
    for index, tensor in enumerate(weights.values()):
        members[f"weights/{index}"] = _bytes_of(tensor)
    manifest["members"] = {name: _digest(content) for name, content in members.items()}
    try:
        with appearing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            archive.writestr(_MANIFEST, json.dumps(manifest, indent=1), zipfile.ZIP_DEFLATED)
            for name, content in members.items():
                kept_as = zipfile.ZIP_STORED if name.startswith("weights/") else zipfile.ZIP_DEFLATED
                archive.writestr(name, content, kept_as)
    except OSError as error:
        raise UsageError("can't save the program", where=path, why=error.strerror or str(error)) from error


def load(path: str | PathLike[str], backend: Backend, weights: Mapping[str, torch.Tensor]) -> Program:
    """The program in the file. weights: by parameter or buffer name, the tensors that replace the saved ones."""
    manifest, members = _read(Path(path))
    try:
        graph = Graph.parse(members["graph.txt"].decode())
        plan = resolve(graph, Numerics.from_toml(members["numerics.toml"].decode(), f"{path}:numerics.toml"))
        exported = export.deserialize(bytearray(members["program.jax"]))
        saved = Saved(manifest["fingerprint"], members["program.stablehlo"].decode(), exported)
        bound = {name: _tensor_of(graph, name, members[f"weights/{i}"]) for i, name in enumerate(manifest["weights"])}
        calling = _calling_from_json(manifest["calling"], graph, bound)
    except (TruecastError, *_UNREADABLE) as error:
        raise UsageError(
            "can't load the program: this truecast or jax can't read it",
            where=path,
            values=f"saved by {_versions(manifest.get('versions'))}; this is {_versions(dict(versions()))}",
            why=f"{type(error).__name__}: {error}".splitlines()[0],
            help="load it with the versions that saved it, or lower the program again",
        ) from error
    bound.update(_replacements(graph, weights))
    return Program(graph, plan, manifest["target"], backend, calling, saved)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest, and the members: those that a program of its number of weights has, each as its digest says."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            _require_format(path, manifest["format"], manifest["target"])
            listed = dict(manifest["members"])
            names = (*_TEXTS, *(f"weights/{i}" for i in range(len(manifest["weights"]))))
            # What has no digest is never unpacked.
            members = {name: archive.read(name) for name in names if name in listed and name in archive.namelist()}
    except OSError as error:
        raise UsageError("can't load the program", where=path, why=error.strerror or str(error)) from error
    except _UNREADABLE as error:
        raise _damaged(path, "it is no file that Program.save wrote, or not all of one") from error
    for name in names:
        if name not in members or _digest(members[name]) != listed[name]:
            raise _damaged(path, f"{name} is not what was saved")
    return manifest, members


def _require_format(path: Path, version: object, target: object) -> None:
    if version != FORMAT or target not in TARGETS:
        raise UsageError(
            "can't load the program: another version of truecast saved it",
            where=path,
            values=f"format {version!r}, target {target!r}; this reads format {FORMAT}, targets {', '.join(TARGETS)}",
            help="load it with the version that saved it, or lower the program again",
        )


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        "can't load the program: the file is damaged, or not a saved program",
        where=path,
        why=why,
        help="save it again",
    )


def _versions(table: object) -> str:
    return ", ".join(f"{name} {version}" for name, version in table.items()) if isinstance(table, dict) else "unknown"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _bytes_of(tensor: torch.Tensor) -> bytes:
    dense = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return dense.reshape(-1).view(torch.uint8).numpy().tobytes()


def _tensor_of(graph: Graph, name: str, content: bytes) -> torch.Tensor:
    value = {entry.value.name: entry.value for entry in graph.inputs}[name]
    flat = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
    # A clone, since torch's allocator aligns to 64 bytes and a bytearray does not.
    return flat.clone().view(dtypes.torch_dtype(value.dtype)).reshape(value.shape)


def _replacements(graph: Graph, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    owned = {e.path: e.value for e in graph.inputs if e.kind in ("parameter", "buffer")}
    replaced = {}
    if not isinstance(weights, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in weights.values()):
        raise UsageError("weights is no mapping from names to tensors", help="for example weights=model.state_dict()")
    for path, tensor in weights.items():
        value = owned.get(path)
        if value is None:
            raise UsageError(
                f"the saved program has no parameter or buffer {path!r}",
                help=f"it has {', '.join(sorted(owned)) or 'none'}",
            )
        if (dtypes.of(tensor.dtype), tuple(tensor.shape)) != (value.dtype, value.shape):
            got = f"{dtypes.of(tensor.dtype)}[{','.join(map(str, tensor.shape))}]"
            raise UsageError(
                f"the weight {path!r} does not fit the saved program", values=f"expected {value}, got {got}"
            )
        replaced[value.name] = tensor
    return replaced


def _calling_to_json(calling: Calling) -> dict[str, Any]:
    for position, leaf in calling.baked.items():
        _require_literal(leaf, f"argument {position}")
    for position, entry in enumerate(calling.results):
        if isinstance(entry, tuple):
            _require_literal(entry[1], f"result {position}")
    return {
        "arguments": calling.arguments,
        "results": [["constant", r[1]] if isinstance(r, tuple) else r for r in calling.results],
        "in_spec": _spec_to_json(calling.in_spec, "arguments"),
        "out_spec": _spec_to_json(calling.out_spec, "result"),
        "baked": list(calling.baked.items()),
        "gradients": dict(calling.gradients),
    }


def _require_literal(leaf: Any, what: str) -> None:
    if type(leaf) not in _LITERALS:
        raise UsageError(
            f"can't save the program: {what} is a {type(leaf).__name__}",
            why="a saved program keeps numbers, strings and None beside tensors",
        )


def _spec_to_json(spec: Any, what: str) -> str | None:
    try:
        return None if spec is None else pytree.treespec_dumps(spec)
    except NotImplementedError as error:
        raise UsageError(
            f"can't save the program: the class of its {what} has no name to save it under",
            why=str(error).splitlines()[0],
            help="use tuples, lists, dicts and namedtuples registered with torch.utils._pytree",
        ) from error


def _calling_from_json(data: Mapping[str, Any], graph: Graph, bound: Mapping[str, torch.Tensor]) -> Calling:
    """Raises ValueError for what names no input or output of the graph."""
    results = [r for r in data["results"] if not isinstance(r, list)]
    if not {*results, *data["gradients"].values()} <= set(range(len(graph.outputs))):
        raise ValueError("its results are none of its graph's outputs")
    if not {*data["arguments"]} <= {None, *(entry.value.name for entry in graph.inputs)}:
        raise ValueError("its arguments are none of its graph's inputs")
    return Calling(
        arguments=tuple(data["arguments"]),
        results=tuple(tuple(r) if isinstance(r, list) else r for r in data["results"]),
        in_spec=None if data["in_spec"] is None else pytree.treespec_loads(data["in_spec"]),
        out_spec=None if data["out_spec"] is None else pytree.treespec_loads(data["out_spec"]),
        bound=bound,
        baked=dict(data["baked"]),
        gradients=data["gradients"],
    )
