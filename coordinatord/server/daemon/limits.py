"""The settings that the pure parts take: limits of groups and of transactions."""

from __future__ import annotations

from coordinatord.base.config import Settings
from coordinatord.coordination.group.state import GroupSettings
from coordinatord.coordination.transactions.state import TransactionSettings


def group_settings(settings: Settings) -> GroupSettings:
    """Return the limits of classic groups, and of offsets."""
    return GroupSettings(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        max_pending_members=settings.group_max_pending_members,
    )


def transaction_settings(settings: Settings) -> TransactionSettings:
    """Return the limits of transactional ids."""
    return TransactionSettings(
        max_timeout_ms=settings.transaction_max_timeout_ms,
        id_expiration_ms=settings.transactional_id_expiration_ms,
    )
