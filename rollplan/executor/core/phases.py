"""Phases of healthy jobs: what their events mean, who gets which permit, what starts now.

Waiting is never written down: after every event each job is asked anew what it could do (`jobs`).
"""

from __future__ import annotations

from rollplan.executor.core import dispatch, migration
from rollplan.executor.core.board import Board
from rollplan.executor.core.chunks import WITH_SYNC, staleness_bound
from rollplan.executor.core.events import (
    Estimate,
    Estimated,
    Event,
    Interrupt,
    Progress,
    Rollout,
    RolloutEnded,
    SamplesDone,
    Sync,
    SyncEnded,
    Train,
    TrainEnded,
)
from rollplan.executor.core.jobs import Batch, Job


class StalenessError(AssertionError):
    """A sample was about to be trained that is older than the job allows: a fault of the core, never of a program."""


def absorb(board: Board, job: Job, event: Event) -> str | None:
    """Take an event of a running job; return what is wrong with the job, if the event shows it.

    Events of phases that do not run any more, because the job was stopped since, mean nothing.
    """
    match event:
        case Progress():
            _alive(board, job, event.resource)
        case Estimated() if event.iteration == job.estimating:
            _estimated(board, job, event)
        case SamplesDone() if job.rolling.get(event.node) == event.iteration:
            _alive(board, job, event.node)
            _samples_done(board, job, event)
        case RolloutEnded() if job.rolling.get(event.node) == event.iteration:
            return _rollout_ended(board, job, event)
        case TrainEnded() if job.training and (job.training.iteration, job.training.chunk) == (event.iteration, event.chunk):
            _train_ended(board, job, job.training)
        case SyncEnded() if event.version == job.syncing:
            _sync_ended(board, job, event.version)
    return None


def advance(board: Board) -> None:
    """Ask for permits and grant them until nothing more can start."""
    running = [job for job in board.jobs.values() if job.state == "running"]
    granted = True
    while granted:
        for job in running:
            _without_permit(board, job)
            _ask(board, job)
        granted = False
        for resource, permit in board.permits.items():
            if holder := permit.grant():
                granted = True
                _use(board, board.jobs[holder], resource)


# What events mean


def _estimated(board: Board, job: Job, event: Estimated) -> None:
    job.estimating = None
    del job.seen_s["estimate", job.run.rollout[0]]
    count, samples = len(event.tokens), job.run.samples
    if count not in (0, samples):
        board.remark(job, f"{count} estimates for {samples} samples of iteration {event.iteration}: dealt evenly instead")
    job.estimates[event.iteration] = event.tokens if count == samples else ()


def _samples_done(board: Board, job: Job, event: SamplesDone) -> None:
    batch = job.batches[event.iteration]
    for sample in event.samples:
        if sample in batch.open.get(event.node, ()):
            batch.open[event.node].remove(sample)
            batch.finished.append(sample)
    if batch.migration is None and (due := migration.begin(job.run, batch.done, batch.open)):
        batch.migration = due
        moved = sum(len(batch.open[node]) for node in due.waiting if node not in due.keepers)
        board.remark(job, f"iteration {event.iteration}: {moved} unfinished samples move to {', '.join(due.keepers)}")
        board.out += [Interrupt(job.run.name, event.iteration, node) for node in job.run.rollout if node in due.waiting]


def _rollout_ended(board: Board, job: Job, event: RolloutEnded) -> str | None:
    batch, node = job.batches[event.iteration], event.node
    if node not in batch.open:
        return None
    left = batch.open.pop(node)
    moving = batch.migration if batch.migration and node in batch.migration.waiting else None
    if left != set(event.remaining) or (left and moving is None):
        odd = ", ".join(str(sample) for sample in sorted(left ^ set(event.remaining) or left))
        return f"rollout {event.iteration} on {node} ended, but samples {odd} are neither finished nor handed back"
    del job.seen_s["rollout", node]
    if moving is None:
        _free(board, job, node)
    else:
        moving.report(node, event.remaining)
        if node not in moving.keepers:
            _free(board, job, node)
        if not moving.waiting:
            _consolidate(board, job, event.iteration, batch, moving)
    return None


def _consolidate(board: Board, job: Job, iteration: int, batch: Batch, moving: migration.Migration) -> None:
    for node, rest in moving.consolidated().items():
        if rest:
            _roll(board, job, iteration, node, rest, resumed=rest)
        else:
            _free(board, job, node)


def _train_ended(board: Board, job: Job, ended: Train) -> None:
    job.training = None
    del job.seen_s["training", job.run.train]
    if ended.last:
        job.finished += 1
        job.drop_trained()
        job.restarts = 0
        if job.run.way not in WITH_SYNC or not job.sync_due():
            board.permits[job.run.train].release(job.run.name)


def _sync_ended(board: Board, job: Job, version: int) -> None:
    job.syncing, job.synced = None, version
    del job.seen_s["sync", job.run.train]
    if job.run.way in WITH_SYNC:
        board.permits[job.run.train].release(job.run.name)


def _alive(board: Board, job: Job, resource: str) -> None:
    """A sync or an estimate waits for whatever its workers do, so any sign of life of the job is one of theirs."""
    for what, where in job.seen_s:
        if where == resource or what in ("sync", "estimate"):
            job.seen_s[what, where] = board.now_s


# What starts now


def _without_permit(board: Board, job: Job) -> None:
    """Do what needs no new permit: a sync, an estimate, a further chunk."""
    name, train = job.run.name, job.run.train
    if job.sync_due():
        job.syncing = job.finished
        job.seen_s["sync", train] = board.now_s
        board.out.append(Sync(name, job.finished))
    if (iteration := job.estimate_due()) is not None:
        job.estimating = iteration
        job.seen_s["estimate", job.run.rollout[0]] = board.now_s
        board.out.append(Estimate(name, iteration))
    if board.permits[train].holder == name and (chunk := job.chunk_due()):
        _train(board, job, chunk)


def _ask(board: Board, job: Job) -> None:
    for node in job.run.rollout:
        if job.rollout_due(node) is not None:
            board.permits[node].ask(job.run.name)
    if job.chunk_due():
        board.permits[job.run.train].ask(job.run.name)


def _use(board: Board, job: Job, resource: str) -> None:
    if resource == job.run.train:
        _train(board, job, job.chunk_due())
        return
    iteration = job.next_rollout[resource]
    job.next_rollout[resource] += 1
    if share := job.batch(iteration).shares[resource]:
        _roll(board, job, iteration, resource, share)
    else:
        # Fewer samples than nodes: its turn passes.
        job.drop_trained()
        board.permits[resource].release(job.run.name)


def _roll(board: Board, job: Job, iteration: int, node: str, share: tuple[int, ...], resumed: tuple[int, ...] = ()) -> None:
    batch = job.batches[iteration]
    batch.open[node] = set(share)
    for sample in share:
        batch.versions.setdefault(sample, job.synced)
    job.rolling[node] = iteration
    job.seen_s["rollout", node] = board.now_s
    slots = dispatch.slots(job.run.rollout, job.run.dispatch)[node]
    board.out.append(Rollout(job.run.name, iteration, node, job.synced, share, slots, resumed, board.alone(node)))


def _free(board: Board, job: Job, node: str) -> None:
    del job.rolling[node]
    job.drop_trained()
    board.permits[node].release(job.run.name)


def _train(board: Board, job: Job, samples: tuple[int, ...]) -> None:
    iteration, batch = job.finished, job.batches[job.finished]
    versions = tuple(batch.versions[sample] for sample in samples)
    if iteration - min(versions) > staleness_bound(job.run):
        raise StalenessError(f"{job.run.name}: iteration {iteration} would train samples of versions {versions}")
    taken = set(samples)
    batch.finished = [sample for sample in batch.finished if sample not in taken]
    batch.trained += len(samples)
    last = batch.trained == job.run.samples
    job.training = Train(job.run.name, iteration, batch.chunks, samples, versions, last, board.alone(job.run.train))
    batch.chunks += 1
    job.seen_s["training", job.run.train] = board.now_s
    board.out.append(job.training)
