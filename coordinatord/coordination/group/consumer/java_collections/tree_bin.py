"""A long bucket of a HashMap: a red-black tree by hash, whose keys also form a list (HashMap.TreeNode).

Java iterates over the list, and changes it as the tree changes: a new key is inserted right after its
parent in the tree, and whenever the tree gets another root, the root moves to the front. So the order
depends on the tree's shape. Insertion and deletion are those of Cormen, Leiserson, Rivest and Stein,
"Introduction to Algorithms", chapter 13, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, TypeVar

K = TypeVar("K")

Side = Literal[0, 1]
LEFT: Side = 0
RIGHT: Side = 1


class _Node(Generic[K]):
    """A key in the tree and in the list."""

    __slots__ = ("behind", "children", "front", "key", "parent", "rank", "red")

    def __init__(self, key: K, rank: tuple[int, Any]) -> None:
        self.key = key
        self.rank = rank
        self.red = True
        self.parent: _Node[K] | None = None
        self.children: list[_Node[K] | None] = [None, None]
        self.front: _Node[K] | None = None
        self.behind: _Node[K] | None = None


def _is_red(node: _Node[K] | None) -> bool:
    return node is not None and node.red


class Tree(Generic[K]):
    """The keys of one bucket."""

    __slots__ = ("_first", "_nodes", "_order", "_root", "_spread")

    def __init__(self, spread: Callable[[K], int], order: Callable[[K], Any], chain: Iterable[K]) -> None:
        """`chain`: at least one key, in the order of the list before."""
        self._spread = spread
        self._order = order
        self._root: _Node[K] | None = None
        self._first: _Node[K] | None = None
        self._nodes: dict[K, _Node[K]] = {}
        last = None
        for key in chain:
            node = self._new(key)
            self._link(node, last)
            self._attach(node)
            last = node
        self._root_to_front()

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, key: K) -> bool:
        return key in self._nodes

    def __iter__(self) -> Iterator[K]:
        node = self._first
        while node is not None:
            yield node.key
            node = node.behind

    def insert(self, key: K) -> None:
        """Add a key that is not in the tree."""
        node = self._new(key)
        self._link(node, self._attach(node))
        self._root_to_front()

    def remove(self, key: K) -> bool:
        """Remove a key. Return False if the rest is a plain list again, because the tree was too small before."""
        root = self._root
        assert root is not None
        left, right = root.children
        small = left is None or right is None or left.children[LEFT] is None
        node = self._nodes.pop(key)
        self._unlink(node)
        if small:
            return False
        self._detach(node)
        self._root_to_front()
        return True

    # The list.

    def _link(self, node: _Node[K], front: _Node[K] | None) -> None:
        """Put a node after another one in the list; None: at the front."""
        behind = self._first if front is None else front.behind
        node.front, node.behind = front, behind
        if behind is not None:
            behind.front = node
        if front is None:
            self._first = node
        else:
            front.behind = node

    def _unlink(self, node: _Node[K]) -> None:
        front, behind = node.front, node.behind
        if front is None:
            self._first = behind
        else:
            front.behind = behind
        if behind is not None:
            behind.front = front

    def _root_to_front(self) -> None:
        root = self._root
        if root is not None and root is not self._first:
            self._unlink(root)
            self._link(root, None)

    # The tree.

    def _new(self, key: K) -> _Node[K]:
        signed = self._spread(key) ^ 0x80000000  # Java compares hashes as signed ints
        node = self._nodes[key] = _Node(key, (signed, self._order(key)))
        return node

    def _attach(self, node: _Node[K]) -> _Node[K] | None:
        """Add a leaf and balance the tree; return the leaf's first parent."""
        parent: _Node[K] | None = None
        below = self._root
        side = LEFT
        while below is not None:
            parent = below
            side = LEFT if node.rank < below.rank else RIGHT
            below = below.children[side]
        node.parent = parent
        if parent is None:
            self._root = node
        else:
            parent.children[side] = node
        self._balance_insertion(node)
        return parent

    def _rotate(self, node: _Node[K], side: Side) -> None:
        """Move a node down to this side; its other child takes its position."""
        other = RIGHT if side == LEFT else LEFT
        riser = node.children[other]
        assert riser is not None
        grandchild = node.children[other] = riser.children[side]
        if grandchild is not None:
            grandchild.parent = node
        self._replace(node, riser)
        riser.children[side] = node
        node.parent = riser

    def _replace(self, node: _Node[K], by: _Node[K] | None) -> None:
        """Put another node at the position of this one."""
        parent = node.parent
        if parent is None:
            self._root = by
        else:
            parent.children[LEFT if parent.children[LEFT] is node else RIGHT] = by
        if by is not None:
            by.parent = parent

    def _balance_insertion(self, node: _Node[K]) -> None:
        while (parent := node.parent) is not None and parent.red and (above := parent.parent) is not None:
            side = LEFT if above.children[LEFT] is parent else RIGHT
            other = RIGHT if side == LEFT else LEFT
            uncle = above.children[other]
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                above.red = True
                node = above
                continue
            if parent.children[other] is node:
                self._rotate(parent, side)
                parent = node
            parent.red = False
            above.red = True
            self._rotate(above, other)
            break
        assert self._root is not None
        self._root.red = False

    def _detach(self, node: _Node[K]) -> None:
        """Remove a node from the tree and balance it."""
        left, right = node.children
        if left is not None and right is not None:
            heir = right
            while (smaller := heir.children[LEFT]) is not None:
                heir = smaller
            self._swap(node, heir)
            left, right = node.children
        child = right if left is None else left
        if child is not None:  # of a node with one child that is red
            self._replace(node, child)
            child.red = False
            return
        if not node.red:
            self._balance_deletion(node)
        self._replace(node, None)

    def _swap(self, node: _Node[K], heir: _Node[K]) -> None:
        """Swap the positions and colours of a node and the next greater one, below it."""
        node.red, heir.red = heir.red, node.red
        left, right = node.children
        parent, child = heir.parent, heir.children[RIGHT]
        assert left is not None
        assert right is not None
        assert parent is not None
        self._replace(node, heir)
        heir.children[LEFT] = left
        left.parent = heir
        if parent is node:
            heir.children[RIGHT] = node
            node.parent = heir
        else:
            heir.children[RIGHT] = right
            right.parent = heir
            parent.children[LEFT] = node
            node.parent = parent
        node.children = [None, child]
        if child is not None:
            child.parent = node

    def _balance_deletion(self, node: _Node[K]) -> None:
        """Rebalance before a black node is removed."""
        while (parent := node.parent) is not None and not node.red:
            side = LEFT if parent.children[LEFT] is node else RIGHT
            other = RIGHT if side == LEFT else LEFT
            sibling = parent.children[other]
            assert sibling is not None
            if sibling.red:
                sibling.red = False
                parent.red = True
                self._rotate(parent, side)
                sibling = parent.children[other]
                assert sibling is not None
            near, far = sibling.children[side], sibling.children[other]
            if not _is_red(near) and not _is_red(far):
                sibling.red = True
                node = parent
                continue
            if far is None or not far.red:
                assert near is not None
                near.red = False
                sibling.red = True
                self._rotate(sibling, other)
                sibling, far = near, sibling
            sibling.red = parent.red
            parent.red = far.red = False
            self._rotate(parent, side)
            return
        node.red = False
