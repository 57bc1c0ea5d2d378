"""The search for one model: Optuna's trials, each trained on several label draws, one after another.

The state of a trial is in the database only: its values in Optuna's tables, its draws among the runs of the store. No
process owns a trial. Any process advances it as far as its finished draws allow and may claim the next draw, so another
process continues the trials of one that dies.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import optuna
from optuna.pruners import MedianPruner, NopPruner
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from laddernet import checks
from laddernet.data import TrainingRows
from laddernet.errors import InputError
from laddernet.network.models import find
from laddernet.study.store import Store
from laddernet.text import one_line
from laddernet.training.config import REVISION, Config
from laddernet.training.settings import configure, published, recipe_named
from laddernet.training.tuned import Settings
from laddernet.tune.samplers import SAMPLERS, ByNumber
from laddernet.tune.space import Space, Values, as_settings, as_values

FIRST_DRAW = 1001  # the seed of the first label draw; the seeds of a study begin at 1, so its draws differ
ATTRIBUTE = "laddernet"  # the attribute of Optuna's study that holds the plan

optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclass(frozen=True)
class Plan:
    """The settings of a search for one model. The same plan is the same search, which goes on where it stopped."""

    data: str
    labels: int  # as given by the user
    model: str
    recipe: str
    sampler: str
    seed: int
    draws: int
    space: dict[str, Any]
    config: dict[str, Any]  # of a draw, without its seed and the values that are searched
    revision: int  # of the training program: a search must not mix two revisions

    @property
    def name(self) -> str:
        """The name of Optuna's study: the main settings, and a hash of all."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]
        epochs = self.config["epochs"]
        return f"{self.data} {self.labels} {self.model} {self.sampler} {epochs}×{self.draws} {digest}"


class Search:
    """A search for one model.

    Parameters
    ----------
    rows
        The training rows.
    store
        Records the draws.
    storage
        Optuna's tables, in the same database.
    space
        The search space.
    model
        The model's id.
    labels
        The number of labelled rows, or ``"all"``.
    sampler
        ``"tpe"``, ``"random"`` or ``"grid"``.
    trials
        The number of trials; by default 50, or the whole grid.
    draws
        The number of label draws of a trial.
    seed
        The seed of the sampler.
    prune
        Whether trials whose first draws are bad are ended early.
    recipe
        The training recipe.
    command
        The command, which is recorded.
    on_end
        Called with the search and each trial that has ended.
    **settings
        Further arguments of :func:`laddernet.training.settings.configure`.
    """

    def __init__(
        self,
        rows: TrainingRows,
        store: Store,
        storage: optuna.storages.BaseStorage,
        space: Space,
        *,
        model: str,
        labels: int | Literal["all"],
        sampler: str = "tpe",
        trials: int | None = None,
        draws: int = 3,
        seed: int = 0,
        prune: bool = True,
        recipe: str = "paper",
        command: str = "",
        on_end: Callable[["Search", FrozenTrial], None] = lambda search, trial: None,
        **settings: Any,
    ) -> None:
        check_search(sampler, trials, draws, seed)
        n_rows = rows.n_labelled
        validation = settings.pop("validation", None)
        validation = n_rows // 6 if validation is None else validation
        validation = checks.integer("validation", validation)
        self.labels = n_rows if isinstance(labels, str) and labels == "all" else checks.integer("labels", labels)
        # If all rows are labelled, those held out are not.
        drawn = min(self.labels, n_rows - validation) if self.labels == n_rows else self.labels
        self._rows = rows
        self._store = store
        self._storage = storage
        self._space = space
        self._draws = draws
        self._on_end = on_end
        self._is_over = False
        self._settings = {
            **settings,
            "model": model,
            "labels": drawn,
            "validation": validation,
            "recipe": recipe,
            "tuned": False,
        }
        base = asdict(configure(rows, seed=FIRST_DRAW, **self._settings))
        for name in ("seed", "noise", "recon_weights", "eta", "learning_rate"):
            del base[name]
        for name, usual in (("precision", "float32"), ("content", None)):  # names stay as they were without these
            if base[name] == usual:
                del base[name]
        self.plan = Plan(
            data=rows.name,
            labels=self.labels,
            model=find(model).id,
            recipe=recipe,
            sampler=sampler,
            seed=seed,
            draws=draws,
            space=asdict(space),
            config=json.loads(json.dumps(base)),
            revision=REVISION,
        )
        if not space.ranges:
            raise InputError(f"The space of {model} has no range to search; give it one.")
        with understood(store), store.alone():
            self.study = optuna.create_study(
                storage=storage,
                study_name=self.plan.name,
                direction="minimize",
                load_if_exists=True,
                sampler=ByNumber(sampler, space, seed),
                pruner=MedianPruner(n_startup_trials=4) if prune else NopPruner(),
            )
            self._study_id = storage.get_study_id_from_name(self.plan.name)
            if not self.study.trials:
                # The first trial has the values that are used without a search, so nothing worse is chosen.
                rate = recipe_named(recipe).learning_rate
                untuned = space.drawn(as_values({**published(find(model), self.labels), "learning_rate": rate}))
                if untuned is not None:
                    self.study.enqueue_trial(untuned)
            about = {"command": command, "shape": [rows.n_features, rows.n_classes]}
            self.study.set_user_attr(ATTRIBUTE, {**asdict(self.plan), **about})
            held = self.study.get_trials(deepcopy=False)
        self.limit = _limit(space, sampler, trials, held)

    def wanted(self) -> list[Config]:
        """Return the next draw of each running trial, and record the trials that have ended."""
        if self._is_over:
            return []
        with _explained(self._store):
            trials = self._begun()
            under_way = [trial for trial in trials if trial.state == TrialState.RUNNING]
            self._is_over = not under_way and len(trials) >= self.limit
            return [config for trial in under_way if (config := self._advance(self._complete(trial)))]

    def ask(self) -> Config | None:
        """Begin a trial and return its first draw that is not done; None if no trial is left to begin."""
        while not self._is_over:
            with _explained(self._store):
                with self._store.alone():
                    if len(self._begun()) >= self.limit:
                        return None
                    number = self.study.ask({**self._space.distributions()}).number
                config = self._advance(self.study.get_trials(deepcopy=False)[number])
            if config is not None:
                return config
        return None

    def best(self) -> float | None:
        """Return the lowest mean validation error of the trials with all draws."""
        with _explained(self._store):
            trials = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return min((trial.value for trial in trials if trial.value is not None), default=None)

    def values(self, trial: FrozenTrial) -> Values:
        """Return the values of a trial."""
        return self._space.values(trial.params)

    def _begun(self) -> list[FrozenTrial]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]

    def _resumed(self, number: int) -> Trial:
        """Return a trial that this or another process has begun, as an object that can be changed."""
        return Trial(self.study, self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number))

    def _complete(self, trial: FrozenTrial) -> FrozenTrial:
        """Draw the values that a process has not drawn because it was killed."""
        distributions = self._space.distributions()
        if set(trial.params) == set(distributions):
            return trial
        with self._store.alone():  # not while another process is asking
            asked = self._resumed(trial.number)
            for name, d in distributions.items():
                asked.suggest_float(name, d.low, d.high, log=d.log)
        return self.study.get_trials()[trial.number]

    def _advance(self, trial: FrozenTrial) -> Config | None:
        """Report finished draws to Optuna; return the next draw, or None if the trial has ended."""
        settings = as_settings(self._space.values(trial.params))
        seeds = range(FIRST_DRAW, FIRST_DRAW + self._draws)
        configs = [configure(self._rows, seed=seed, **{**self._settings, **settings}) for seed in seeds]
        if configs[0].source != self.plan.config["source"]:
            advice = "repeat the command to search for the new one"
            raise InputError(f"The combinator {self.plan.model!r} has changed since this search began; {advice}.")
        try:
            return self._report(trial, settings, {key(config): config for config in configs})
        except optuna.exceptions.UpdateFinishedTrialError:
            return None  # another process has ended it

    def _report(self, trial: FrozenTrial, settings: Settings, draws: dict[str, Config]) -> Config | None:
        runs = {run.fingerprint: run for run in self._store.runs(list(draws))}
        errors: list[float] = []

        def end(state: TrialState, reason: str | None = None) -> None:
            with self._store.alone():  # two processes may find the last draw finished at the same time
                asked = self._resumed(trial.number)
                asked.set_user_attr("settings", settings)
                asked.set_user_attr("errors", errors)
                if reason is not None:
                    asked.set_user_attr("reason", reason)
                mean = float(np.mean(errors)) if state == TrialState.COMPLETE else None
                ended = self.study.tell(trial.number, mean, state)
            self._on_end(self, ended)

        names = list(draws)
        for number, (fingerprint, config) in enumerate(draws.items(), start=1):
            run = runs.get(fingerprint)
            if run is not None and run.status == "failed":
                end(TrialState.FAIL, run.error)
                return None
            if run is None or run.result is None:
                return config
            errors.append(run.result["validation_error"])
            is_next_begun = number == len(draws) or names[number] in runs
            if number in trial.intermediate_values and is_next_begun:
                continue
            asked = self._resumed(trial.number)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a process that was killed may have reported it already
                asked.report(float(np.mean(errors)), number)
            if not is_next_begun and asked.should_prune():
                end(TrialState.PRUNED)
                return None
        end(TrialState.COMPLETE)
        return None


def check_search(sampler: str, trials: int | None, draws: int, seed: int) -> None:
    """Refuse invalid settings of a search."""
    if sampler not in SAMPLERS:
        raise InputError(f"There is no sampler {sampler!r}; give one of {', '.join(SAMPLERS)}.")
    checks.integer("trials", 1 if trials is None else trials, most=10**6)
    checks.integer("draws", draws, most=1000)
    checks.integer("seed", seed, least=0, most=checks.MOST_SEED)


def key(config: Config) -> str:
    """Return the key of a draw in the store. It differs from that of a study's run, which has a test error."""
    return f"tune-{config.fingerprint}"


def more(store: Store, searches: Sequence[Search], free: int) -> dict[str, Config]:
    """Return draws for the free slots, of running or new trials; nothing if all searches have ended.

    Each search has one trial at a time, and more only if there are fewer searches than slots. So the sampler has the
    results of earlier trials, and a slot keeps its compiled programs.
    """
    wanted: dict[str, Config] = {}
    under_way: dict[Search, int] = {}
    waiting = 0
    for search in searches:
        configs = {key(config): config for config in search.wanted()}
        held = len(store.runs(list(configs), status="running")) if configs else 0
        if not configs and (config := search.ask()):
            configs = {key(config): config}
        if configs:
            under_way[search] = len(configs)
            wanted |= configs
            waiting += len(configs) - held
        if waiting >= free:
            return wanted
    while waiting < free and under_way:
        search = min(under_way, key=lambda search: under_way[search])
        config = search.ask()
        if config is None:
            del under_way[search]
        else:
            under_way[search] += 1
            wanted[key(config)] = config
            waiting += 1
    return wanted


def open_storage(store: Store, *, create: bool = True) -> optuna.storages.RDBStorage:
    """Open Optuna's tables in the database of the store; without `create` they must exist, and nothing is written."""
    sqlite = store.url.get_backend_name() == "sqlite"
    options: dict[str, Any] = {"connect_args": {"timeout": 60}} if sqlite else {"pool_pre_ping": True}
    address = store.url.render_as_string(hide_password=False)
    try:
        with understood(store), store.alone():
            if not create and not store.has_table("studies"):
                raise InputError(f"There is no search in {store.name}; name the --out of a search, or its --store.")
            storage = optuna.storages.RDBStorage(address, engine_kwargs=options, skip_table_creation=not create)
    except AssertionError as error:  # Optuna takes a file of its own that it cannot open for one that does not exist
        advice = "allow more open files (ulimit -n), or install Optuna again"
        raise InputError(
            f"Cannot open the searches in {store.name}: Optuna cannot read its files; {advice}."
        ) from error
    except RuntimeError as error:
        raise InputError(
            f"The searches in {store.name} are of another version of Optuna ({one_line(error)})."
        ) from error
    if sqlite:
        # A commit does not wait for the disk: a power cut may lose the last trials, but no draw.
        event.listen(storage.engine, "connect", lambda made, _: made.execute("PRAGMA synchronous=NORMAL"))
        storage.engine.dispose()  # of connections without this setting
    return storage


def _limit(space: Space, sampler: str, trials: int | None, held: Sequence[FrozenTrial]) -> int:
    if sampler != "grid":
        return 50 if trials is None else trials
    points = int(np.prod([len(values) for values in space.grid().values()]))
    points += bool(held and "fixed_params" in held[0].system_attrs)  # the trial of the untuned values
    return points if trials is None else min(trials, points)


@contextmanager
def _explained(store: Store) -> Iterator[None]:
    """Turn errors of Optuna and its database into an `InputError`."""
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, optuna.exceptions.StorageInternalError) else error
        reason = " ".join(str(getattr(cause, "orig", None) or cause or error).split())
        raise InputError(
            f"Cannot use the searches in {store.name} ({reason}); check the store, or name another."
        ) from error


@contextmanager
def understood(store: Store) -> Iterator[None]:
    """Turn errors of Optuna, its database and damaged records into an `InputError`."""
    try:
        with _explained(store):
            yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise InputError(
            f"The searches in {store.name} are damaged ({reason}); restore the store, or name another."
        ) from error
