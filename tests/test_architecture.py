"""The house stays as it was drawn: who may import whom, how long a file may get, which names and options are public."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import rollplan
from rollplan.cli.exits import Exit
from rollplan.cli.main import app

PACKAGE = Path(rollplan.__file__).parent
ROOT = PACKAGE.parent
MAY_IMPORT = {
    "models": set[str](),
    "planner": {"models"},
    "profilers": {"models"},
    "executor": {"models"},
    "cli": {"models", "planner", "profilers", "executor"},
}
FORGIVEN: dict[str, int] = {}
"""Files that may be longer than 400 lines, and how long."""

SOURCES = sorted(path for path in PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, everywhere: bool = True) -> Iterator[str]:
    """Yield the modules a file imports; `everywhere` includes imports inside functions and for type checking only."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())) if everywhere else top_level(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield from (module for alias in node.names for module in (base, f"{base}.{alias.name}"))


def top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements that run when the module is imported."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending += ast.iter_child_nodes(node)


def closure(start: str) -> set[str]:
    """Return every module that importing `start` imports: ours followed, others by name only."""
    files = {module_name(path): path for path in SOURCES}
    seen: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in files:
            parents = [".".join(name.split(".")[:depth]) for depth in range(1, name.count(".") + 1)]
            pending += [*imports(files[name], everywhere=False), *parents]
    return seen


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_import_goes_against_the_arrows(path: Path) -> None:
    """cli -> planner, profilers, executor -> models; the three in the middle never see each other."""
    layer = path.relative_to(PACKAGE).parts[0]
    used = {parts[1] for module in imports(path) if (parts := module.split("."))[0] == "rollplan" and len(parts) > 1}
    if layer in MAY_IMPORT:
        assert used & MAY_IMPORT.keys() <= MAY_IMPORT[layer] | {layer}


def test_every_folder_has_its_arrows() -> None:
    """A new layer is a decision."""
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == MAY_IMPORT.keys()


ELSEWHERE = ("executor/core", "executor/shell", "executor/sync", "executor/engines", "executor/programs", "executor/api.py")
"""What runs in the interpreter that has Ray and engines, and not rollplan's own dependencies (docs/decisions/0013)."""
ENGINES = {"ray", "torch", "transformers", "safetensors", "vllm"}


@pytest.mark.parametrize("part", ELSEWHERE)
def test_what_runs_in_another_interpreter_needs_none_of_our_dependencies(part: str) -> None:
    """Its modules, and every module of ours that they import, know the standard library and engines; the core not even these."""
    own = [path for path in SOURCES if str(path.relative_to(PACKAGE)).startswith(part)]
    assert own
    files = {module_name(path): path for path in SOURCES}
    ours = {name for path in own for name in closure(module_name(path)) if name in files}
    known = sys.stdlib_module_names | {"rollplan"} | (set() if part in ("executor/core", "executor/api.py") else ENGINES)
    used = {(name, module.split(".")[0]) for name in ours for module in imports(files[name], everywhere=files[name] in own)}
    assert {(name, module) for name, module in used if module not in known} == set()


SOLVERS = {"rollplan.planner", "pulp", "highspy", "ortools", "scipy", "cvxpy"}
"""numpy is arithmetic: the laws of stage times, which `check` evaluates again, rest on it (docs/decisions/0009)."""
JUDGES = {"algorithm1", "certificate", "problem", "verify"}
"""The modules of co-location that `check` may rest on; the others find plans."""


FOLDERS_OF_COLOCATION = {
    "pricing": set[str](),
    "plans": {"pricing"},
    "tree": {"pricing", "plans"},
    "rates": set[str](),
    "certificate": set[str](),
}


@pytest.mark.parametrize("folder", FOLDERS_OF_COLOCATION)
def test_the_folders_of_colocation_have_arrows_too(folder: str) -> None:
    """Pricing knows no tree, plans know no proof, and none of them its caller."""
    paths = [path for path in SOURCES if path.is_relative_to(PACKAGE / "models" / "colocation" / folder)]
    used = {
        parts[3]
        for path in paths
        for name in imports(path)
        if name.startswith("rollplan.models.colocation.") and (parts := name.split("."))
    }
    others = FOLDERS_OF_COLOCATION.keys() | {"exact"}
    assert paths
    assert used & others <= FOLDERS_OF_COLOCATION[folder] | {folder}


@pytest.mark.parametrize("module", ["rollplan.models.check", "rollplan.models.colocation.verify", "rollplan.models.colocation.certificate"])
def test_what_judges_a_plan_imports_nothing_that_makes_one(module: str) -> None:
    """The whole closure of imports, so that no helper smuggles the solver in."""
    found = closure(module)
    files = {module_name(path) for path in SOURCES}
    assert {"rollplan.models.colocation.problem", module} <= found
    parts = {part for name in found & files if "colocation" in name for part in name.split(".")[3:4]}
    assert parts <= JUDGES
    assert not found & {"rollplan.models.split.candidates", "rollplan.models.split.exact"}
    assert not {name for name in found if any(name == solver or name.startswith(f"{solver}.") for solver in SOLVERS)}


@pytest.mark.parametrize("module", ["rollplan.models.check", "rollplan.models.colocation.verify"])
def test_what_judges_a_plan_loads_no_solver_in_fact(module: str) -> None:
    """The same, asked of the interpreter."""
    assert not loaded_by(f"import {module}") & SOLVERS


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter holds after a statement."""
    program = f"import sys\n{statement}\nprint(*sys.modules, sep='\\n')"
    return set(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split())


HEAVY = {"torch", "ray", "vllm", "cvxpy", "plotly", "ortools", "numpy", "scipy", "pulp", "highspy", "pydantic", "yaml", "jsonschema"}


@pytest.mark.parametrize(
    "statement", ["import rollplan", "import rollplan.cli", "import rollplan.cli.main", "from rollplan.cli.main import app"]
)
def test_the_front_door_opens_without_heavy_libraries(statement: str) -> None:
    """So that `rollplan --help` answers at once, and works where a solver is broken."""
    assert not loaded_by(statement) & HEAVY


def test_planning_needs_neither_torch_nor_ray() -> None:
    """A planner runs on a laptop."""
    loaded = loaded_by("import rollplan.planner.compose, rollplan.models.check, rollplan.cli.screen")
    assert not loaded & {"torch", "ray", "vllm", "cvxpy", "plotly", "pandas", "matplotlib"}


FILES = [*SOURCES, *(path for folder in ("tests", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py")))]


def test_no_file_is_longer_than_400_lines() -> None:
    """A reader opens a file called after the one thing it holds."""
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in FILES}
    assert {name: count for name, count in lines.items() if count > FORGIVEN.get(name, 400)} == {}
    assert {name for name in FORGIVEN if lines.get(name, 0) <= 400} == set(), "no longer needs to be forgiven"


def test_every_module_says_what_it_is_for() -> None:
    """The first line of a file is its title; an empty file has none."""
    assert [str(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))] == []


# The public surface.


def test_public_names_are_sorted_and_exist() -> None:
    """A new public name is a decision, so this list changes in the same commit."""
    names = ["CheckReport", "Finding", "InfeasibleError", "InputError", "Limits", "NoSolutionError", "Plan", "RollplanError", "Scenario"]
    assert rollplan.__all__ == [*names, "check", "diff", "plan"] == sorted(rollplan.__all__)
    assert all(getattr(rollplan, name).__doc__ for name in rollplan.__all__)
    assert dir(rollplan) == sorted([*rollplan.__all__, "__version__"])


def test_a_name_that_is_not_public_does_not_exist() -> None:
    """The lazy module answers like any other."""
    with pytest.raises(AttributeError, match="module 'rollplan' has no attribute 'solve'"):
        _ = rollplan.solve


COMMANDS = {
    "plan": "scenario -o/--output --json --method --time-limit --node-limit --target-gap --seed --force -q/--quiet"
    " --since --max-moved --move-price",
    "check": "scenario plan --max-gap --time-limit --json",
    "explain": "plan --job --json",
    "diff": "old new --exit-code --json",
    "schema": "file",
    "split": "scenario --job --json",
    "dispatch": "scenario --job --instances --recall --ranker --method --time-limit --seed --json",
    "fit": "scenario --job --rollout --train --colocated --json",
    "calibrate": "scenario samples --job --rollout-gpus --train-gpus -o/--output --json --force",
    "run": "plan --folder --python --address --interface --policy --job --iterations --dispatch --resume --force --trace -o/--output"
    " --metrics-port --time-limit -q/--quiet --json",
    "what-if": "plan changes --job --json",
    "profile import": "log --framework --name -o/--output --json --force",
    "profile link": "--python --rank --ranks --address --interface --backend --streams --megabytes --time-limit -o/--output --json --force",
    "advise": "log --config --framework --run --placement --rollout-gpus --train-gpus --staleness --model --gpu --price --json",
    "profile rollout": "--model --engine --python --tp --batches --contexts --max-num-seqs --weights --prompt-tokens --enforce-eager"
    " --spread --time-limit --processes -o/--output --json --force",
    "profile lengths": "samples --column --text --prompt-column --group --step-column --limit --unit --ranker --prompts --estimates --seed"
    " -o/--output --json --force",
    "profile train": "--model --python --tokens --lengths --checkpointing --dtype --moves --disk --spread --time-limit"
    " -o/--output --force --json",
}


def commands() -> dict[str, Any]:
    """Return every verb, those of `rollplan profile` as two words."""
    group: Any = get_command(app)
    found = dict(group.commands)
    found |= {f"profile {verb}": command for verb, command in found.pop("profile").commands.items()}
    return found


def test_verbs_and_options_are_frozen() -> None:
    """Scripts rest on them; to add one is a decision, to take one away breaks somebody."""
    shown = {
        verb: " ".join("/".join(sorted(option.opts)) if option.opts[0].startswith("-") else option.opts[0] for option in command.params)
        for verb, command in commands().items()
    }
    assert {verb: set(options.split()) for verb, options in shown.items()} == {
        verb: {"/".join(sorted(option.split("/"))) for option in options.split()} for verb, options in COMMANDS.items()
    }


def test_every_option_explains_itself() -> None:
    """`rollplan plan --help` is the first page of the manual."""
    assert [f"{verb} {option.name}" for verb, command in commands().items() for option in command.params if not option.help] == []
    assert all(command.help for command in commands().values())


def test_exit_codes_are_frozen() -> None:
    """Every verb uses the same ones."""
    assert {code.name: code.value for code in Exit} == {
        "DONE": 0,
        "NO": 1,
        "INPUT": 2,
        "INFEASIBLE": 3,
        "NO_SOLUTION": 4,
        "INTERRUPTED": 130,
    }
