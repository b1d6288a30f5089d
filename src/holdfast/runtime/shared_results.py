"""The book of one program, with what other programs have kept behind it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import (
    CatalogClaim,
    CatalogedResult,
    InProduction,
    MadeFrom,
    OfferedResult,
    ProducedResult,
    Published,
)
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.catalog.near_misses import AskedFor, why_not
from holdfast.catalog.noted_uses import NotedUses
from holdfast.catalog.patience import is_worth_waiting
from holdfast.catalog.result_record import RESULT_RECORD_NAME, ResultRecord
from holdfast.errors import ClaimFencedError, StorageError
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.reasons import Reason, Why
from holdfast.runtime.at_hand import AtHand
from holdfast.runtime.kept_results import KeptResults
from holdfast.runtime.result_book import (
    CLAIM_NUMBERS,
    PATIENCE_SECONDS,
    Claim,
    KeptResult,
    Origin,
    ProductionFacts,
    ResultBook,
)
from holdfast.runtime.sharing_place import SharingPlace
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.storage.sealed_batches import is_for_one_program

if TYPE_CHECKING:
    from holdfast.catalog.catalog import Catalog

_POLL_SECONDS = 0.05
_LONGEST_POLL_SECONDS = 0.5

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharingPolicy:
    """Who gets what of this program's, and it of others'.

    Attributes:
        audience: who may read what this program keeps.
        limit: how many bytes all results may have, of how many they have now; None: any number.
        unreadable: a source file that the user may not read, if any.
        is_wanted: whether a computation is to be kept in this program.
        why_own_seal: why sealed results haven't the seal that all programs of the user give; None
            where they have it.
        is_unasked: whether nobody has asked for that, so that its result is kept for as long as
            others aren't worth more.
        shares_ambiguous: results of which several are right are shared, if they have a lifetime.
        retention_seconds: how long what has no lifetime stays for the next start of this program,
            should it be killed; None: not at all.
        user: whose program this is.
    """

    audience: Audience
    limit: Callable[[int], int | None]
    unreadable: Callable[[Collection[str]], str | None]
    is_wanted: Callable[[str], bool]
    why_own_seal: Callable[[], str | None] = lambda: "the user has no key"
    is_unasked: Callable[[str], bool] = lambda digest: False
    shares_ambiguous: bool = True
    retention_seconds: float | None = None
    user: str = ""


class SharedResults(ResultBook):
    """Finds what other programs have kept, and shows them what this one keeps.

    What is read of another program's is linked into this program's own directory first: whatever
    becomes of it there, it stays here for as long as it is read.

    Uses of what the program has are noted in memory, and written a moment later, before it makes
    room for a result, and when it closes. A crash loses those of that moment.

    Args:
        catalog: the catalog.
        place: where bytes are.
        policy: see there.

    Source: FLIP-36, phase 2, and "Long Term Goal".
    """

    def __init__(self, catalog: GuardedCatalog, place: SharingPlace, policy: SharingPolicy) -> None:
        self._own = KeptResults(self._remove)
        self._catalog = catalog
        self._place = place
        self._policy = policy
        self._lock = RLock()
        self._claims: dict[int, CatalogClaim] = {}
        # By the names of datasets: what they are in the catalog.
        self._published: dict[str, int] = {}
        self._taken_in: dict[str, int] = {}
        # Those that outlive this program.
        self._staying: set[str] = set()
        # What those are in the catalog that outlive this program should it be killed.
        self._retained: set[int] = set()
        # Claims that the catalog could not be told of: renewed, they would keep others waiting.
        self._owed: list[CatalogClaim] = []
        self._uses = NotedUses()
        self._found: dict[IntermediateDataSetID, OfferedResult] = {}
        # Those whose next reader has been counted already.
        self._counted: set[str] = set()
        self._said: set[str] = set()
        self._at_hand = AtHand()
        catalog.on_renewal(self._look_after)
        catalog.on_news(self._write_uses)

    def find(
        self, dataset_ids: Collection[IntermediateDataSetID] | None = None
    ) -> dict[IntermediateDataSetID, KeptResult]:
        found = self._own.find(dataset_ids)
        if dataset_ids is None:
            return found
        missing = [each for each in dataset_ids if each not in found]
        offers = self._offered(missing)
        for dataset_id, offered in offers.items():
            result, readable = offered.result, self._place.readable(offered.kept)
            if readable is not None:
                # Its number here is given when it is leased.
                found[dataset_id] = KeptResult(
                    0,
                    dataset_id,
                    result.digest,
                    readable,
                    result.created,
                    result.uses,
                    readers=0,
                    origin=_origin(offered),
                    seconds=result.seconds,
                    files=frozenset(offered.made_from.files),
                )
        # What a job finds, it leases next.
        self._found = offers
        return found

    def claim(
        self,
        dataset_id: IntermediateDataSetID,
        digest: str,
        patience_seconds: float = PATIENCE_SECONDS,
        *,
        alone: bool = True,
        number: int | None = None,
    ) -> Claim | KeptResult | None:
        began = time.monotonic()
        own = self._own.claim(dataset_id, digest, patience_seconds, number=number)
        if alone or not isinstance(own, Claim):
            return own
        try:
            waited = time.monotonic() - began
            return self._claim_of_all(own, patience_seconds - waited)
        except BaseException:
            # An interrupt may come between the catalog's answer and its being noted here.
            self._catalog.ask(lambda catalog: catalog.claims.withdraw(dataset_id), False)
            self.abandon(own)
            raise

    def commit(
        self, claim: Claim, kept: KeptDataSet, *, wanted: bool, facts: ProductionFacts | None = None
    ) -> KeptResult:
        result = self._own.commit(claim, kept, wanted=wanted, facts=facts)
        with self._lock:
            of_all = self._claims.pop(claim.number, None)
        # What was invalidated while it was produced is there for its producer alone.
        current = self._own.find([claim.dataset_id]).get(claim.dataset_id)
        if facts is not None and current is not None and current.number == result.number:
            return self._own.explained(result, self._publish(result, facts, of_all))
        if of_all is not None:
            self._give_up(of_all)
        return result

    def abandon(self, claim: Claim) -> None:
        with self._lock:
            of_all = self._claims.pop(claim.number, None)
        self._own.abandon(claim)
        if of_all is not None:
            self._give_up(of_all)

    def lease(
        self, dataset_ids: Iterable[IntermediateDataSetID]
    ) -> dict[IntermediateDataSetID, KeptResult]:
        asked = list(dataset_ids)
        leased = self._own.lease(asked)
        self._note_uses(leased.values())
        missing = [each for each in asked if each not in leased]
        # Another thread may have found, or be leasing, the same.
        popped = {each: self._found.pop(each, None) for each in missing}
        offered = {each: known for each, known in popped.items() if known is not None}
        offered |= self._offered([each for each in missing if each not in offered])
        for dataset_id, each in offered.items():
            # Known before it is made, so that no interrupt leaves it held.
            made = Claim(next(CLAIM_NUMBERS), dataset_id, each.result.digest)
            try:
                claim = self._own.claim(dataset_id, made.digest, number=made.number)
                taken_in = self._take_in(claim, each) if isinstance(claim, Claim) else None
            finally:
                self._own.abandon(made)
            if taken_in is not None:
                leased[dataset_id] = taken_in
            elif isinstance(claim, KeptResult):
                own = self._own.lease([dataset_id])
                self._note_uses(own.values())
                leased.update(own)
        return leased

    def release(self, results: Iterable[KeptResult]) -> None:
        self._own.release(results)

    def saved(self, result: KeptResult, seconds: float) -> None:
        self._own.saved(result, seconds)
        name = result.kept.name
        if name is None:
            return
        with self._lock:
            number = self._published.get(name) or self._taken_in.get(name)
            if number is not None:
                self._uses.saved(number, seconds)
                self._catalog.has_news()

    def evict(self, results: Iterable[KeptResult]) -> list[KeptResult]:
        damaged = list(results)
        numbers = self._numbers([each.kept.name for each in damaged])
        evicted = self._own.evict(damaged)
        # The same files lie in both places: what is damaged here is so there, also where nobody
        # here had asked for it to be kept.
        self._withdraw("it was damaged", numbers)
        return evicted

    def invalidate(
        self, digest: str | None = None, *, everywhere: bool = False
    ) -> list[KeptResult]:
        dropped = self._own.invalidate(digest)
        with self._lock:
            names = [
                each.kept.name
                for each in dropped
                if everywhere or (each.origin is None and each.kept.name not in self._staying)
            ]
        self._withdraw("it was invalidated", self._numbers(names), digest if everywhere else None)
        return dropped

    @property
    def audience(self) -> Audience:
        return self._policy.audience

    def why_not(self, asked: Collection[AskedFor]) -> dict[str, str]:
        nothing: dict[str, tuple[AskedFor, CatalogedResult, MadeFrom]] = {}
        if not asked or not self._catalog.is_there():
            return {}
        found = self._catalog.ask(lambda catalog: catalog.search.near(asked), nothing)
        return {digest: why_not(*near, self._policy.unreadable) for digest, near in found.items()}

    def refused(
        self, dataset_id: IntermediateDataSetID, digest: str, computes: str, reason: Reason
    ) -> None:
        def refuse(catalog: Catalog) -> None:
            catalog.publications.refuse(dataset_id, digest, computes, reason)

        self._catalog.ask(refuse, None)

    def note_query(self, content: bytes) -> bool:
        def noted(catalog: Catalog) -> bool:
            catalog.queries.add(content)
            return True

        return self.is_shared and self._catalog.ask(noted, False)

    def past_queries(self, most: int) -> list[bytes]:
        nothing: list[bytes] = []
        # A catalog that isn't there isn't made for the question.
        if not self._catalog.is_there():
            return nothing
        return self._catalog.ask(lambda catalog: catalog.queries.last(most), nothing)

    def may_find(self, apart_from: Callable[[str], bool]) -> bool:
        if self._own.may_find(apart_from):
            return True
        return self._catalog.is_there() and self._catalog.ask(
            lambda catalog: not catalog.search.is_empty(), False
        )

    def job_ended(self) -> None:
        with self._lock:
            retained, self._retained = self._retained, set()
        self._withdraw("the program that had kept it ended", retained)

    def close(self) -> None:
        if self._uses:
            self._catalog.ask(self._write_uses, None)
        self._own.invalidate()
        for kept in self._at_hand.expired(all_of_them=True).values():
            self._place.remove(kept)
        self._catalog.close()

    # -- other programs' results

    def _offered(
        self, dataset_ids: Collection[IntermediateDataSetID]
    ) -> dict[IntermediateDataSetID, OfferedResult]:
        nothing: dict[IntermediateDataSetID, OfferedResult] = {}
        if not dataset_ids or not self._catalog.is_there():
            return nothing
        found = self._catalog.ask(lambda catalog: catalog.search.find(dataset_ids), nothing)
        return {
            dataset_id: each
            for dataset_id, each in found.items()
            if self._may_be_read(each.kept.manifest.dataset)
            and self._policy.unreadable([file.path for file in each.made_from.files]) is None
        }

    def _take_in(self, claim: Claim, offered: OfferedResult) -> KeptResult | None:
        """Links another program's result here; None where that can't be done any more."""
        result, lying = offered.result, offered.kept
        wanted = self._policy.is_wanted(result.digest)
        if not self._catalog.ask(
            lambda catalog: catalog.holders.use(result.number, hold=True), False
        ):
            return None
        try:
            kept = self._at_hand.take(result.number) or self._place.take_in(lying)
        except StorageError as error:
            logger.debug("%s of another program can't be read: %s", result.name, error)
            damage = self._place.damage(lying)
            if damage is None:
                self._catalog.ask(lambda catalog: catalog.holders.let_go([result.number]), None)
            else:
                self._withdraw(damage, [result.number])
            return None
        if kept.name is not None:
            # An earlier start of this program has kept it, or one that runs, whose next start then
            # computes it again.
            is_retained = result.is_shared and result.lifetime is None
            is_own = wanted and result.user == self._policy.user
            with self._lock:
                self._taken_in[kept.name] = result.number
                if is_own and is_retained and self._policy.retention_seconds is not None:
                    self._retained.add(result.number)
        return self._own.commit(claim, kept, wanted=wanted, origin=_origin(offered))

    def _may_be_read(self, dataset: DataSetDescription) -> bool:
        if dataset.ambiguous and not self._policy.shares_ambiguous:
            return False
        return dataset.seal is None or self._policy.why_own_seal() is None

    def _claim_of_all(self, own: Claim, patience_seconds: float) -> Claim | KeptResult | None:
        """Of all programs, too, one alone is to produce it."""
        began, pause = time.monotonic(), _POLL_SECONDS
        answer = self._catalog.ask(lambda catalog: catalog.claims.claim(own.dataset_id), None)
        while True:
            if isinstance(answer, CatalogClaim):
                with self._lock:
                    self._claims[own.number] = answer
                return own
            if answer is None:
                return own
            if isinstance(answer, CatalogedResult):
                taken_in = self._take_in_offered(own)
                if taken_in is not None:
                    return taken_in
                refused = answer.number
                answer = self._catalog.ask(
                    lambda catalog: catalog.claims.claim(own.dataset_id), None
                )
                if isinstance(answer, CatalogedResult) and answer.number == refused:
                    # Here it is computed, then, as if nobody else had.
                    return own
                continue
            if not is_worth_waiting(answer, time.monotonic() - began, patience_seconds):
                self._own.abandon(own)
                return None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_POLL_SECONDS)
            answer = self._catalog.ask(lambda catalog: _asked_again(catalog, own.dataset_id), None)

    def _take_in_offered(self, own: Claim) -> KeptResult | None:
        offered = self._offered([own.dataset_id]).get(own.dataset_id)
        if offered is None:
            return None
        taken_in = self._take_in(own, offered)
        if taken_in is not None:
            if taken_in.kept.name is not None:
                with self._lock:
                    self._counted.add(taken_in.kept.name)
            self._own.release([taken_in])
        return taken_in

    # -- this program's own

    def _publish(
        self, result: KeptResult, facts: ProductionFacts, claim: CatalogClaim | None
    ) -> tuple[Reason, ...]:
        """Shows a result to other programs; returns why they can't have it, if so."""
        is_sealed = result.kept.manifest.dataset.seal is not None
        reasons: list[Reason] = []
        if not facts.reasons and is_sealed:
            reasons += self._why_for_this_program(result.kept, facts)
        if not facts.reasons and result.kept.manifest.dataset.ambiguous:
            reasons += () if self._policy.shares_ambiguous else (Why.OWN_ANSWER.of(),)
        if not facts.reasons and not reasons and claim is None:
            reasons.append(Why.KEPT_ALREADY.of())
        is_offered = not facts.reasons and not reasons
        # Who opens what is sealed has the user's key, and runs what the user has written.
        with_others = facts.is_checkable and not is_sealed
        if is_offered and self._policy.audience.is_beyond_user and not facts.is_checkable:
            reasons.append(Why.UNCHECKABLE.of())
        audience = self._policy.audience if with_others else Audience.USER
        retention = self._policy.retention_seconds if is_offered else None
        stays = facts.lifetime is not None or retention is not None
        if is_offered and not stays and audience.is_beyond_user:
            audience = self._opened_to(result.kept, audience, reasons)
        produced = ProducedResult(
            dataset_id=result.dataset_id,
            digest=result.digest,
            shape=facts.shape,
            kept=self._place.recorded(result.kept),
            is_shared=False,
            audience=audience if is_offered else Audience.NOBODY,
            lifetime=facts.lifetime if is_offered else None,
            seconds=facts.seconds,
            cpu_seconds=facts.cpu_seconds,
            inputs=facts.inputs,
            made_from=facts.made_from,
            retention=retention,
            reasons=(*facts.reasons, *reasons),
        )
        try:
            published = self._catalog.ask(
                lambda catalog: self._published_in(catalog, produced, claim, reasons), None
            )
        except ClaimFencedError as error:
            logger.warning("%s is kept for this program alone: %s", result.dataset_id, error)
            return (*reasons, Why.OVERTAKEN.of(error))
        if published is None:
            if claim is not None:
                self._give_up(claim)
            return () if facts.reasons else (Why.CATALOG_FAILED.of(),)
        self._gave_way(published.evicted)
        if published.number is None:
            self._own.evict([result])
            return (Why.NO_ROOM.of(f"{result.kept.bytes:,}"),)
        if result.kept.name is not None:
            with self._lock:
                self._published[result.kept.name] = published.number
                if published.is_shared and produced.lifetime is not None:
                    self._staying.add(result.kept.name)
                elif published.is_shared:
                    self._retained.add(published.number)
        return tuple(reasons)

    def _gives_way(self) -> list[int]:
        """What of this program's may be evicted, although it holds that: nobody asked for it.

        Whoever reads it has its files until the end.
        """
        with self._lock:
            published = dict(self._published)
        return [
            published[each.kept.name]
            for each in self._own.find().values()
            if each.kept.name in published and self._policy.is_unasked(each.digest)
        ]

    def _gave_way(self, evicted: Collection[CatalogedResult]) -> None:
        """What was evicted for others is not read any more here, either."""
        if evicted:
            names = {each.name for each in evicted}
            gone = [each for each in self._own.find().values() if each.kept.name in names]
            self._numbers([each.kept.name for each in gone])
            self._own.evict(gone)

    def _why_for_this_program(
        self, kept: KeptDataSet, facts: ProductionFacts
    ) -> tuple[Reason, ...]:
        """Why no other program can open what is sealed, if so."""
        why = self._policy.why_own_seal()
        if why is not None:
            return (Why.OWN_SEAL.of(why),)
        if not kept.rows or not is_for_one_program(self._place.statistics(kept)):
            return ()
        if facts.lifetime is not None:
            logger.warning(
                "%s will go with this program: its records are of classes that are pickled by "
                "their content, and which no other program has. Define them in a module that the "
                "program imports, and not in the program itself",
                kept.manifest.dataset.computes,
            )
        return (Why.OWN_CLASSES.of(),)

    def _published_in(
        self,
        catalog: Catalog,
        produced: ProducedResult,
        claim: CatalogClaim | None,
        reasons: list[Reason],
    ) -> Published:
        # What makes room goes by them.
        self._write_uses(catalog)
        announced: int | None = None
        statistics: dict[str, ColumnStatistics] = {}
        if produced.outlives is not None:
            if produced.kept.manifest.dataset.seal is None:
                statistics = self._place.statistics(produced.kept)
            try:
                announced, produced = self._put_where_it_stays(catalog, produced)
            except StorageError as error:
                # What is wrong with the place is said once, not for each result.
                level = logging.DEBUG if str(error) in self._said else logging.WARNING
                self._said.add(str(error))
                logger.log(level, "%s will go with this program: %s", produced.dataset_id, error)
                reasons.append(Why.NOT_PUT.of(error))
                produced = replace(produced, reasons=(*produced.reasons, reasons[-1]))
        try:
            published = catalog.publications.publish(
                produced,
                claim,
                self._policy.limit,
                announced=announced,
                statistics=statistics,
                must_be_kept=not self._policy.is_unasked(produced.digest),
                giving_way=self._gives_way(),
            )
        except ClaimFencedError:
            if announced is not None:
                remove_going(
                    catalog,
                    self._place,
                    catalog.holders.withdraw("it was late", numbers=[announced]),
                )
            raise
        going = list(published.evicted)
        if published.number is None and announced is not None:
            going += catalog.holders.withdraw("there was no room", numbers=[announced])
        remove_going(catalog, self._place, going)
        return published

    def _opened_to(self, kept: KeptDataSet, audience: Audience, reasons: list[Reason]) -> Audience:
        try:
            self._place.open_up(kept, audience)
        except StorageError as error:
            logger.warning("a result is kept for its user alone: %s", error)
            reasons.append(Why.UNOPENED.of(error))
            return Audience.USER
        return audience

    def _put_where_it_stays(
        self, catalog: Catalog, produced: ProducedResult
    ) -> tuple[int, ProducedResult]:
        produced = replace(produced, is_shared=True)
        announced = catalog.publications.announce(produced)
        try:
            record = ResultRecord.of(produced, catalog.scope.program, catalog.scope.environment)
            beside = {RESULT_RECORD_NAME: record.model_dump_json(indent=2)}
            kept = self._place.put(produced.kept, beside, produced.audience)
        except StorageError:
            remove_going(
                catalog,
                self._place,
                catalog.holders.withdraw("it can't be put", numbers=[announced]),
            )
            raise
        return announced, replace(produced, kept=kept)

    def _give_up(self, claim: CatalogClaim) -> None:
        if not self._catalog.ask(lambda catalog: catalog.claims.abandon(claim), False):
            with self._lock:
                self._owed.append(claim)

    def _look_after(self, catalog: Catalog) -> None:
        with self._lock:
            owed, self._owed = self._owed, []
        for claim in owed:
            catalog.claims.abandon(claim)
        self._write_uses(catalog)
        unread = self._at_hand.expired()
        for kept in unread.values():
            self._place.remove(kept)
        catalog.holders.let_go(unread)
        self._retain(catalog)
        remove_going(catalog, self._place, catalog.holders.sweep())

    def _retain(self, catalog: Catalog) -> None:
        seconds = self._policy.retention_seconds
        if seconds is not None:
            with self._lock:
                retained = set(self._retained)
            catalog.holders.retain(retained, seconds)

    def _note_uses(self, results: Iterable[KeptResult]) -> None:
        with self._lock:
            for name in filter(None, (each.kept.name for each in results)):
                if name in self._counted:
                    self._counted.remove(name)
                    continue
                number = self._published.get(name) or self._taken_in.get(name)
                if number is not None:
                    self._uses.note(number)
                    self._catalog.has_news()

    def _write_uses(self, catalog: Catalog) -> None:
        unwritten = self._uses.take()
        try:
            # One at a time, so that no two programs wait for each other.
            for number in sorted(unwritten):
                catalog.holders.use(number, noted=unwritten[number])
                del unwritten[number]
        finally:
            self._uses.put_back(unwritten)

    def _numbers(self, names: Iterable[str | None]) -> list[int]:
        """What datasets of this program are in the catalog; from now on they are not any more."""
        with self._lock:
            numbers = [
                self._published.pop(name, None) or self._taken_in.pop(name, None)
                for name in names
                if name is not None
            ]
        return [number for number in numbers if number is not None]

    def _withdraw(self, why: str, numbers: Collection[int], digest: str | None = None) -> None:
        if not numbers and digest is None:
            return

        def withdraw(catalog: Catalog) -> list[CatalogedResult]:
            gone = catalog.holders.withdraw(why, numbers=numbers, digest=digest)
            remove_going(catalog, self._place, gone)
            return gone

        nothing: list[CatalogedResult] = []
        for result in self._catalog.ask(withdraw, nothing):
            spare = self._at_hand.take(result.number)
            if spare is not None:
                self._place.remove(spare)

    def _remove(self, kept: KeptDataSet) -> None:
        number: int | None = None
        if kept.name is not None:
            with self._lock:
                number = self._taken_in.pop(kept.name, None)
                self._counted.discard(kept.name)
        spare = kept if number is None else self._at_hand.put(number, kept)
        if spare is not None:
            self._place.remove(spare)


def remove_going(
    catalog: Catalog, place: SharingPlace, results: Collection[CatalogedResult]
) -> None:
    """Removes the files of results that nobody finds any more, and notes that they are gone.

    Args:
        catalog: the catalog that they were in.
        place: where they lie.
        results: those that the catalog has let go of.
    """
    removed = [each.number for each in results if each.is_shared and place.take_away(each.name)]
    catalog.holders.removed(removed)


def _asked_again(
    catalog: Catalog, dataset_id: IntermediateDataSetID
) -> CatalogClaim | CatalogedResult | InProduction:
    found = catalog.claims.producer(dataset_id)
    return catalog.claims.claim(dataset_id) if found is None else found


def _origin(offered: OfferedResult) -> Origin:
    result, files = offered.result, frozenset(offered.made_from.files)
    return Origin(result.user, result.host, result.created, result.seconds, files)
