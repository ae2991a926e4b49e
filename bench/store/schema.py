"""Define what a stored row may say: every column is declared once, with what identifies a row of each kind.

A column that is declared here appears in new stores, in `gfy records export`, in the report's table of rows and in
`docs/reference/rows.md`. A file written before the column existed opens as it is, and the value is missing there.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = 2
# "GFY1"; it is in the header of every store, and tells a store from other SQLite files.
APPLICATION_ID = 0x47465931
STATUSES = ("ok", "not converged", "timeout", "crashed", "not finite", "unsupported")


class RecordsError(ValueError):
    """A store, a row or an export cannot be used; the message is one sentence for a person.

    Example:
        >>> from bench.store import RecordsError, key_of
        >>> try:
        ...     key_of({"kind": "lunch"})
        ... except RecordsError as error:
        ...     print(str(error)[:25])
        Column 'kind' is 'lunch';
    """


@dataclass(frozen=True)
class Column:
    """Describe one column of a row.

    Args:
        name: The name in rows, exports and tables.
        type: TEXT, INTEGER, REAL or JSON (stored as text).
        about: What it says, in a few words.
        unit: The unit of its numbers; empty, the default, where they have none.
        better: "lower" or "higher" for a measurement that can be ranked; empty, the default, for others.

    Example:
        >>> from bench.store import FIELDS
        >>> FIELDS["gap"].type, FIELDS["gap"].better
        ('REAL', 'lower')
    """

    name: str
    type: str
    about: str
    unit: str = ""
    better: str = ""


@dataclass(frozen=True)
class Section:
    """Hold columns that belong together, as the reference page shows them."""

    title: str
    columns: tuple[Column, ...]
    note: str = ""


@dataclass(frozen=True)
class Kind:
    """Describe a kind of row: what it is, and the columns whose values identify a row of it.

    Args:
        about: What measured the row, in a few words.
        identity: The columns of which the key is made.
        compares: Whether the rows measure a solver on an inner problem, so that choices can be ranked; False by
            default.

    Example:
        >>> from bench.store import KINDS
        >>> KINDS["imitation"].identity, KINDS["compare"].compares
        (('problem', 'family', 'seed', 'problem_params'), True)
    """

    about: str
    identity: tuple[str, ...]
    compares: bool = False


SECTIONS = (
    Section("What it is", (
        Column("key", "TEXT", "SHA-256 of the identity of the row: the columns that its kind declares"),
        Column("schema", "INTEGER", f"version of this table ({SCHEMA})"),
        Column("kind", "TEXT", "what measured it; see the kinds below"),
        Column("status", "TEXT", ", ".join(f"`{name}`" for name in STATUSES)),
        Column("reason", "TEXT", "why the status is not `ok`, in a sentence"),
        Column("created", "TEXT", "ISO time, UTC"),
    )),
    Section("The problem", (
        Column("problem", "TEXT", "its name with sizes, or the dataset or task of an experiment"),
        Column("family", "TEXT", "the recipe it was made by"),
        Column("energy", "TEXT", "the energy of the inner problem"),
        Column("regularizer", "TEXT", "its regularizer"),
        Column("domain", "TEXT", "its convex set"),
        Column("k", "INTEGER", "size of p"),
        Column("batch", "INTEGER", "examples solved at once"),
        Column("rank", "INTEGER", "rank of the interactions"),
        Column("seed", "INTEGER", "seed of the data, or of the training run"),
        Column("problem_params", "JSON", "every parameter of the recipe, or of the training"),
        Column("problem_source", "TEXT", "fingerprint of the file that makes the problem"),
        Column("problem_probe", "REAL", "a seeded projection of the problem's numbers: equal numbers, equal probe"),
        Column("loss", "TEXT", "the loss that a network was trained with"),
    )),
    Section("What was run", (
        Column("solver", "TEXT", "name of the solver"),
        Column("solver_params", "JSON", "its parameters"),
        Column("gradient", "TEXT", "`none`, `envelope`, `implicit` or `unrolled`"),
        Column("gradient_params", "JSON", "parameters of the gradient mode"),
        Column("backend", "TEXT", "framework"),
        Column("device", "TEXT", "cpu or cuda"),
        Column("dtype", "TEXT", "precision of the solve"),
        Column("tol", "REAL", "accuracy level: the certified relative gap that is asked for"),
        Column("tol_given", "REAL", "tolerance that the solver was given to reach it; missing where it is the level"),
        Column("search", "JSON", "tolerances that were tried before, each with its certified relative gap and the "
               "fraction of the batch that the solver called converged"),
        Column("max_steps", "INTEGER", "most steps that it may take"),
        Column("repeat_asked", "INTEGER", "timed calls of each program that were asked for"),
        Column("timeout_s", "REAL", "time that the cell was given", "s"),
        Column("attempt", "INTEGER", "how often the cell was measured; more than once where it was loaded"),
    )),
    Section("How good it is", (
        Column("gap", "REAL", "the certified gap", better="lower"),
        Column("gap_rel", "REAL", "the certified gap over max(1, absolute value of the objective)", better="lower"),
        Column("residual", "REAL", "distance to the answer of the fixed-point map", better="lower"),
        Column("feasibility", "REAL", "distance outside the set", better="lower"),
        Column("value", "REAL", "the objective", better="higher"),
        Column("distance", "REAL", "bound of the distance to the solution", better="lower"),
        Column("concave", "INTEGER", "1 where the energy is concave in p, so that the gap is a bound"),
        Column("steps", "REAL", "mean number of steps over the batch", better="lower"),
        Column("steps_max", "REAL", "largest number of steps over the batch", better="lower"),
        Column("converged", "REAL", "fraction of the batch that the solver calls converged", better="higher"),
        Column("p_digest", "TEXT", "SHA-256 of the returned p, from which its certificate can be computed again"),
        Column("grad_error", "REAL", "relative error of the gradient of the loss against a reference", better="lower"),
        Column("grad_cosine", "REAL", "cosine between that gradient and the reference", better="higher"),
        Column("grad_bound", "REAL", "what theory promises for the accuracy reached, on the scale of `grad_error`"),
        Column("argmax_grad_error", "REAL", "relative error of a derivative of the maximiser against a reference",
               better="lower"),
        Column("argmax_grad_cosine", "REAL", "cosine between that derivative and the reference", better="higher"),
        Column("grad_reference", "TEXT", "what the gradients are held against, or why there is no reference"),
        Column("grad_reference_gap", "REAL", "certified gap of the solution that the reference starts from",
               better="lower"),
        Column("grad_reference_residual", "REAL", "fixed-point residual of that solution", better="lower"),
        Column("grad_uncertainty", "REAL", "how far the reference of the loss gradient may be off, relative",
               better="lower"),
        Column("argmax_grad_uncertainty", "REAL", "how far the reference of that derivative may be off, relative",
               better="lower"),
    ), "These are certified in float64, outside the clock; each is the largest over the batch."),
    Section("What it costs", (
        Column("trace_s", "REAL", "tracing the solve", "s", "lower"),
        Column("compile_s", "REAL", "compiling it", "s", "lower"),
        Column("first_s", "REAL", "the first call as a user meets it", "s", "lower"),
        Column("steady_s", "REAL", "a warm call of the solve, minimum", "s", "lower"),
        Column("steady_median_s", "REAL", "the same, median", "s", "lower"),
        Column("steady_spread_s", "REAL", "the same, interquartile range", "s", "lower"),
        Column("backward_s", "REAL", "loss and its gradient together, minimum", "s", "lower"),
        Column("backward_median_s", "REAL", "the same, median", "s", "lower"),
        Column("backward_spread_s", "REAL", "the same, interquartile range", "s", "lower"),
        Column("backward_trace_s", "REAL", "tracing loss and gradient", "s", "lower"),
        Column("backward_compile_s", "REAL", "compiling them", "s", "lower"),
        Column("backward_first_s", "REAL", "their first call", "s", "lower"),
        Column("argmax_grad_s", "REAL", "the maximiser and one derivative of it together, minimum", "s", "lower"),
        Column("eager_s", "REAL", "one call of the solve without staging", "s", "lower"),
        Column("repeats", "INTEGER", "number of timed calls"),
        Column("samples", "JSON", "all of them", "s"),
        Column("backward_samples", "JSON", "all timed calls of loss and gradient", "s"),
        Column("break_even", "REAL", "calls after which compiling has paid", "calls", "lower"),
        Column("one_program", "INTEGER", "1 where one compiled program serves every tolerance"),
        Column("temp_bytes", "INTEGER", "memory of the compiled solve", "bytes", "lower"),
        Column("backward_temp_bytes", "INTEGER", "memory of the compiled loss and gradient", "bytes", "lower"),
        Column("peak_host_bytes", "INTEGER", "memory that the solve added to the process", "bytes", "lower"),
        Column("backward_peak_host_bytes", "INTEGER", "memory that loss and gradient added to it", "bytes", "lower"),
        Column("peak_device_bytes", "INTEGER", "memory of the device", "bytes", "lower"),
    ), "Every timed call waits for the device."),
    Section("Where and when", (
        Column("load", "REAL", "cores kept busy by others meanwhile", "cores"),
        Column("loaded", "INTEGER", "1 where that was too many to trust the time"),
        Column("machine", "TEXT", "a short name of the machine and its thread settings"),
        Column("machine_info", "JSON", "processor, memory, threads"),
        Column("versions", "JSON", "of every library that matters"),
        Column("git_commit", "TEXT", "the commit"),
        Column("git_dirty", "INTEGER", "1 where the checkout had changes of its own"),
        Column("score", "REAL", "the result of an experiment; `score_name` says what it is"),
        Column("score_name", "TEXT", "accuracy, return, the ratio of a bar, ..."),
        Column("score_sd", "REAL", "standard deviation of the score over seeds, or over the episodes of one seed"),
        Column("score_paper", "REAL", "the figure that the paper prints for the same thing"),
        Column("extra", "JSON", "whatever has no column"),
    )),
)  # fmt: skip

FIELDS: dict[str, Column] = {column.name: column for section in SECTIONS for column in section.columns}
COLUMNS: dict[str, str] = {name: column.type for name, column in FIELDS.items()}
REQUIRED = ("key", "schema", "kind", "status", "created")  # a file without one of these is damaged

_PROBLEM = (
    "problem", "family", "energy", "regularizer", "domain", "k", "batch", "rank", "seed", "problem_params",
    "problem_source",
)  # fmt: skip
_RUN = (
    "solver", "solver_params", "gradient", "gradient_params", "backend", "device", "dtype", "tol", "max_steps",
)  # fmt: skip
_PLACE = ("machine", "versions")
_TRAINED = (
    "problem", "family", "energy", "regularizer", "batch", "rank", "loss", "gradient", "problem_params",
)  # fmt: skip
_STUDY = (*_PROBLEM, *_RUN, *_PLACE, "score_name")

KINDS: dict[str, Kind] = {
    "compare": Kind("one cell of `gfy compare`", (*_PROBLEM, *_RUN, *_PLACE), compares=True),
    "bars": Kind("a contender or a line of `nox -s bars`", (*_STUDY, "git_commit"), compares=True),
    "asv": Kind("one cell of the asv suites", (*_STUDY, "git_commit"), compares=True),
    "pytest": Kind("one test of pytest-benchmark", (*_STUDY, "git_commit"), compares=True),
    "multilabel": Kind("a trained cell of `gfy reproduce multilabel`, on whatever machine", _TRAINED),
    "training": Kind("a timed training of `gfy reproduce multilabel --study time`", (*_TRAINED, "solver", *_PLACE)),
    "imitation": Kind("a policy of `gfy reproduce imitation`, on whatever machine",
                      ("problem", "family", "seed", "problem_params")),
    "ranking": Kind("a network of `gfy reproduce ranking`, on whatever machine",
                    ("problem", "energy", "regularizer", "domain", "k", "batch", "loss", "seed", "problem_params")),
    "calibration": Kind("a case of `gfy theory calibration`", _STUDY),
    "dc": Kind("a training of `gfy theory dc`", _STUDY),
    "structured": Kind("a case of `gfy theory structured`", _STUDY),
    "minmin": Kind("a network of `gfy reproduce minmin`, on whatever machine", (*_TRAINED, "seed")),
    "amortised": Kind("a way of solving along a training of `gfy reproduce amortised`", _STUDY),
    "roots": Kind("a way to find the multiplier of `gfy reproduce roots`", _STUDY),
}  # fmt: skip


def reference() -> str:
    """Return the tables of `docs/reference/rows.md`: every column and every kind, in Markdown."""
    lines: list[str] = []
    for section in SECTIONS:
        lines += [f"## {section.title}", ""]
        if section.note:
            lines += [section.note, ""]
        lines += ["| column | type | unit | better | meaning |", "|---|---|---|---|---|"]
        lines += [f"| `{c.name}` | {c.type} | {c.unit} | {c.better} | {c.about} |" for c in section.columns]
        lines.append("")
    lines += ["## Kinds and what identifies their rows", "", "| kind | what | identity |", "|---|---|---|"]
    for name, kind in KINDS.items():
        lines.append(f"| `{name}` | {kind.about} | {', '.join(f'`{c}`' for c in kind.identity)} |")
    return "\n".join(lines)
