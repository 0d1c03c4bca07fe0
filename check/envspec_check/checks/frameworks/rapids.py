"""rapids: the tables and models of cuDF and cuML beside pandas and NumPy. They have no build for CPUs."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable, Dict

from envspec_check.checks.frameworks.kit import WRONG, judge
from envspec_check.checks.frameworks.oracle import farthest, numpy
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed

ROWS = 20011


def rapids_check(name: str, module: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Put a check of a library of RAPIDS into the table; it gets the module, and is skipped where that isn't there."""

    def put(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
        def run(ctx: Context) -> Outcome:
            if importlib.util.find_spec(module) is None:
                raise Skip(f"the target locks no {module}")
            return function(ctx, importlib.import_module(module))

        check(f"rapids.{name}", needs="gpu", torch=False)(run)
        return function

    return put


def table(pandas: Any, seed: int) -> Any:
    """Make columns of whole numbers, floats, words and gaps."""
    np, made = numpy(), numpy().random.RandomState(seed)
    values = made.standard_normal(ROWS)
    values[made.randint(ROWS, size=100)] = np.nan
    key = made.randint(300, size=ROWS)
    words = np.array(["alpha", "Beta", "gamma delta", "", "Ωmega"])[made.randint(5, size=ROWS)]
    return pandas.DataFrame({"key": key, "value": values, "count": made.randint(-9, 9, size=ROWS), "word": words})


@rapids_check("tables", "cudf")
def rapids_tables(ctx: Context, cudf: Any) -> Outcome:
    """Groups, joins, sorts, words, gaps and a file of Parquet give what pandas gives."""
    pandas = importlib.import_module("pandas")
    host = table(pandas, ctx.seed)
    frame = cudf.DataFrame.from_pandas(host)
    other = pandas.DataFrame({"key": range(0, 300, 2), "weight": [0.5 * at for at in range(150)]})
    path = str(ctx.scratch / "table.parquet")
    questions: Dict[str, Callable[[Any, Any], Any]] = {
        "groupby": lambda own, _: own.groupby("key")[["value", "count"]].agg(["sum", "max"]).sort_index(),
        "merge": lambda own, more: own.merge(more, on="key").groupby("key")["weight"].sum().sort_index(),
        "sort_values": lambda own, _: own.sort_values(["key", "count", "value"])["value"].reset_index(drop=True),
        "words": lambda own, _: own["word"].str.upper().value_counts().sort_index(),
        "gaps": lambda own, _: own["value"].fillna(-1.0).cumsum(),
        "rolling": lambda own, _: own["count"].rolling(7).mean(),
    }
    wrong = []
    for name, question in questions.items():
        right, result = question(host, other), question(frame, cudf.DataFrame.from_pandas(other)).to_pandas()
        try:
            kind = "frame" if hasattr(right, "columns") else "series"
            same = getattr(pandas.testing, f"assert_{kind}_equal")
            same(result, right, check_dtype=False, check_names=False, check_index_type=False, rtol=1e-9)
        except AssertionError as error:
            print(name, error)
            wrong.append(name)
    frame.to_parquet(path)
    again = cudf.read_parquet(path).to_pandas()
    wrong += [] if again["word"].tolist() == host["word"].tolist() else ["Parquet"]
    details = {"cudf": cudf.__version__, "rows": ROWS, "questions": [*questions, "Parquet"]}
    if wrong:
        return failed(f"cuDF gives other tables than pandas: {', '.join(wrong)}", WRONG, details=details)
    return passed(details=details)


@rapids_check("models", "cuml")
def rapids_models(ctx: Context, cuml: Any) -> Outcome:
    """A linear regression, principal components, clusters and nearest neighbours are those of NumPy's float64."""
    np, made = numpy(), numpy().random.RandomState(ctx.seed)
    rows = made.standard_normal((2000, 16)) * np.arange(1, 17)
    aims = rows @ np.arange(16.0) + 3.0 + 0.01 * made.standard_normal(2000)
    centred, plain = rows - rows.mean(0), np.c_[rows, np.ones(2000)]
    exact = np.linalg.lstsq(plain, aims, rcond=None)[0][:16]
    linear = cuml.LinearRegression(algorithm="svd").fit(rows, aims)
    parts = cuml.PCA(n_components=4).fit(rows)
    errors = {
        "LinearRegression": farthest(np.asarray(linear.coef_).ravel(), exact),
        "PCA": farthest(np.asarray(parts.singular_values_).ravel(), np.linalg.svd(centred, compute_uv=False)[:4]),
    }
    near = cuml.neighbors.NearestNeighbors(n_neighbors=5, algorithm="brute").fit(rows)
    distances = np.asarray(near.kneighbors(rows[:50])[0])
    right = np.sort(np.sqrt(((rows[:50, None] - rows) ** 2).sum(-1)), axis=1)[:, :5]
    errors["NearestNeighbors"] = farthest(distances, right)
    centres = 40.0 * np.eye(8, 16)
    groups = made.randint(8, size=2000)
    labels = np.asarray(
        cuml.KMeans(n_clusters=8, random_state=0, n_init=10).fit_predict(
            centres[groups] + made.standard_normal((2000, 16))
        )
    )
    if len({*zip(groups.tolist(), labels.tolist())}) != 8:
        return failed("KMeans doesn't find 8 clusters that lie far apart", WRONG, details={"errors": errors})
    return judge(errors, 1e-3, "by cuML", cuml=cuml.__version__)
