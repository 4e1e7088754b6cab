"""What goes wrong in the simulated world, one thing at a time. Each method answers False if it could not happen now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.testing.simulation.plan import MINUTE_MS

if TYPE_CHECKING:
    from tests.testing.simulation.members import Consumer
    from tests.testing.simulation.nodes import Node
    from tests.testing.simulation.world import World

TROUBLES = {
    "work": 40,
    "kill_member": 6,
    "stop_member": 6,
    "remove_member": 4,
    "look_at_offsets": 6,
    "pause_member": 6,
    "kill_node": 3,
    "kill_node_in_write": 3,
    "fail_flush": 2,
    "pause_node": 5,
    "stall_node": 4,
    "slow_disk": 3,
    "cut_path": 8,
    "lose_power": 2,
    "move_partitions": 2,
}
"""How often each happens, relative to the others."""

LONGEST_STALL_MS = 45_000


class Troubles:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random

    def befall(self) -> None:
        """One of them, or some work."""
        names, weights = zip(*((name, weight) for name, weight in TROUBLES.items()), strict=True)
        name = self.random.choices(names, weights)[0]
        if getattr(self, name)() is not False:
            counted = self.world.counts.troubles
            counted[name] = counted.get(name, 0) + 1

    def _any_consumer(self) -> Consumer | None:
        names = list(self.world.consumers)
        return self.world.consumers[self.random.choice(names)] if names else None

    def _any_node(self) -> Node | None:
        running = [node for node in self.world.machine.workers if node.daemon is not None and not node.stopping]
        return self.random.choice(running) if running else None

    def work(self) -> None:
        for consumer in list(self.world.consumers.values()):
            if self.random.random() < 0.7:
                consumer.work()

    def kill_member(self) -> Any:
        consumer = self._any_consumer()
        return consumer.crash(told=self.random.random() < 0.6) if consumer else False

    def stop_member(self) -> Any:
        consumer = self._any_consumer()
        return consumer.stop() if consumer else False

    def remove_member(self) -> Any:
        """An operator does, whatever the member is doing just now."""
        consumer = self._any_consumer()
        if consumer is None or not consumer.member.generation.member_id:
            return False
        return self.world.operator.remove(consumer.group.group_id, consumer.member.generation.member_id)

    def look_at_offsets(self) -> Any:
        """An operator asks everybody."""
        return self.world.operator.look_at_offsets()

    def pause_member(self) -> Any:
        consumer = self._any_consumer()
        if consumer is None:
            return False
        group = consumer.group
        longest_ms = max(group.session_ms, group.rebalance_ms)
        return consumer.pause(
            int(self.random.choice((0.1, 0.5, 0.9, 1.3)) * self.random.choice((group.session_ms, longest_ms)))
        )

    def kill_node(self) -> Any:
        node = self._any_node()
        return node.crash() if node else False

    def kill_node_in_write(self) -> Any:
        return self._next_job("dies")

    def fail_flush(self) -> Any:
        return self._next_job("fails") if self.world.plan.flush == "always" else False

    def _next_job(self, fault: Any) -> Any:
        node = self._any_node()
        if node is None:
            return False
        self.world.story.say(node.name, f"its next write {fault}")
        node.worker.fault = fault
        return None

    def pause_node(self) -> Any:
        node = self._any_node()
        return node.pause(self.random.choice((50, 500, 5_000, 30_000))) if node else False

    def stall_node(self) -> Any:
        """A container that is stopped about as long as sessions are, perhaps again and again, with a few slow turns in
        between: what its members say lies in its sockets.
        """
        node = self._any_node()
        if node is None:
            return False
        engine, chance = self.world.engine, self.random
        session_ms = min(chance.choice(self.world.plan.groups).session_ms, LONGEST_STALL_MS)
        at_ms = engine.now_ms
        for _ in range(chance.choice((1, 2, 2, 4))):
            for_ms = int(session_ms * chance.choice((0.4, 0.8, 1.2)))
            engine.at(at_ms, self._stall, node, for_ms)
            at_ms += for_ms + chance.choice((2, 10, 40))
        node.crawl(chance.choice((0, 1, 5, 20)), at_ms)
        return None

    def _stall(self, node: Node, for_ms: int) -> None:
        if self.world.is_mayhem:
            node.pause(for_ms)

    def slow_disk(self) -> Any:
        node = self._any_node()
        if node is None:
            return False
        node.worker.slow_ms = self.random.choice((0, 20, 300, 2_000))
        self.world.story.say(node.name, f"its disk takes {node.worker.slow_ms} ms")
        return None

    def cut_path(self) -> Any:
        whole = [(ends, path) for ends, path in self.world.network.paths.items() if not path.is_cut]
        if not whole:
            return False
        ends, path = self.random.choice(whole)
        for_ms = self.random.choice((200, 3_000, 20_000, 2 * MINUTE_MS))
        self.world.story.say("network", f"{ends[0]} and {ends[1]} are cut off for {for_ms / 1000:g} s")
        self.world.network.cut(path)
        self.world.engine.at(self.world.engine.now_ms + for_ms, self._mend, ends)
        return None

    def _mend(self, ends: tuple[str, str]) -> None:
        path = self.world.network.paths[ends]
        if path.is_cut:
            self.world.story.say("network", f"{ends[0]} and {ends[1]} are together again")
            self.world.network.mend(path)

    def lose_power(self) -> Any:
        # Without any flush only a killed process keeps its data: what is left of a disk then may be damage.
        if not self.world.machine.is_on or self.world.machine.stopping or self.world.plan.flush == "never":
            return False
        self.world.machine.power_off()
        if self.world.plan.flush != "always":
            self.world.watch.disk_lost()
        self.world.engine.at(self.world.engine.now_ms + self.random.choice((1_000, 20_000)), self._power_on)
        return None

    def _power_on(self) -> None:
        if not self.world.machine.is_on:
            self.world.story.say("machine", "is on again")
            self.world.machine.start()

    def move_partitions(self) -> Any:
        """All stop, and another number of workers starts."""
        if not self.world.machine.is_on or self.world.machine.stopping or self.world.plan.most_nodes == 1:
            return False
        count = self.random.randint(1, self.world.plan.most_nodes)
        self.world.story.say("machine", f"stops {self.world.machine.count} nodes, to start {count}")
        self.world.machine.stop(lambda: self.world.engine.at(self.world.engine.now_ms + 300, self._start_others, count))
        return None

    def _start_others(self, count: int) -> None:
        if self.world.machine.is_on:
            self.world.machine.count = count
            self.world.machine.start()
