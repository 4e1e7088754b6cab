"""DescribeConfigs v1-v4, AlterConfigs v0-v2, IncrementalAlterConfigs v0-v1, ListConfigResources v0-v1.

Settings of topics, groups and brokers can be read and changed. Broker settings are the daemon's own settings under
Kafka's names; those that change only with a restart are `read_only`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coordinatord.base.config import TABLE as BROKER_TABLE
from coordinatord.base.config import Settings
from coordinatord.base.config.setting_types import Setting
from coordinatord.base.config.table import FIXED
from coordinatord.broker.topics import client_metrics
from coordinatord.broker.topics.broker_config_table import DYNAMIC
from coordinatord.broker.topics.broker_configs import CLUSTER, UnacceptableChange, is_secret
from coordinatord.broker.topics.broker_configs import row_of as dynamic_row_of
from coordinatord.broker.topics.catalogue import Catalogue, Topic
from coordinatord.broker.topics.config_plan import (
    DONE,
    OPERATIONS,
    SET,
    Changes,
    Failure,
    Plan,
    Planned,
    changed_settings,
    items_of_list,
    malformed,
    not_a_list,
)
from coordinatord.broker.topics.config_table import INT_MAX, ConfigSource, ConfigType, InvalidConfig, TopicConfig
from coordinatord.broker.topics.configs import (
    Configs,
    Synonym,
    own_synonyms,
    row_of,
    text_of,
)
from coordinatord.broker.topics.group_configs import TABLE as GROUP_TABLE
from coordinatord.broker.topics.group_configs import GroupConfigs
from coordinatord.broker.topics.names import why_invalid
from coordinatord.transport.cluster.nodes import Nodes
from coordinatord.transport.net.cooperative_tasks import CooperativeTask, TaskSteps, made_of
from kafka_wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_wire.api.alter_configs import AlterConfigsResourceResponse as Altered
from kafka_wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafka_wire.api.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementallyAltered,
)
from kafka_wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kafka_wire.api.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_wire.api_key import ApiKey
from kafka_wire.errors import ErrorCode

if TYPE_CHECKING:
    from coordinatord.transport.net.request import RequestContext

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32
"""Values of `resource_type`, Kafka's ConfigResource.Type."""

LISTED = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
"""Resource types of ListConfigResources, in response order; loggers have no resources here."""

GONE = {"": ""}
"""Placeholder for the settings of a deleted topic, which equals no topic's settings."""

INVALID_REQUEST = ErrorCode.INVALID_REQUEST


class ConfigApis:
    """Handlers of the APIs for settings."""

    def __init__(self, catalogue: Catalogue, groups: GroupConfigs, nodes: Nodes) -> None:
        self.catalogue = catalogue
        self.groups = groups
        self.brokers = groups.brokers
        self.nodes = nodes
        self.node_id = nodes.node_id

    @property
    def settings(self) -> Settings:
        """The node's settings, with the changes since its start."""
        return self.brokers.settings

    def handlers(self) -> dict[int, Any]:
        """Return the handlers by API key."""
        return {
            ApiKey.DESCRIBE_CONFIGS: self.describe_configs,
            ApiKey.ALTER_CONFIGS: self.alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self.incremental_alter_configs,
            ApiKey.LIST_CONFIG_RESOURCES: self.list_config_resources,
        }

    # Describing

    def describe_configs(self, _context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Handle DescribeConfigs. The result of each resource is independent of the others."""
        return DescribeConfigsResponse(0, [self._describe(resource, request) for resource in request.resources])

    def _describe(self, resource: DescribeConfigsResource, request: DescribeConfigsRequest) -> DescribeConfigsResult:
        found = self._entries(resource, request)
        if isinstance(found, list):
            return DescribeConfigsResult(0, "", resource.resource_type, resource.resource_name, found)
        error, message = found
        return DescribeConfigsResult(error, message, resource.resource_type, resource.resource_name)

    def _entries(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest
    ) -> list[DescribeConfigsResourceResult] | Failure:
        name = resource.resource_name
        wanted = frozenset(resource.configuration_keys or ())
        if resource.resource_type == TOPIC:
            topic = self._topic(name)
            if not isinstance(topic, Topic):
                # Kafka's response has no message here.
                return topic if topic[0] is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else (topic[0], "")
            rows = [row for row in topic.configs.rows if not wanted or row.name in wanted]
            configs = topic.configs
            return [_entry(row, text_of(configs.value(row.name)), configs.synonyms(row), request) for row in rows]
        if resource.resource_type == BROKER:
            failure = self._wrong_broker(name)
            if failure is not None:
                return failure
            self.groups.refresh()
            changed = {**self.brokers.own(CLUSTER), **(self.brokers.own(name) if name else {})}
            names = dict.fromkeys((*BROKER_TABLE, *changed) if name else changed)
            shown = [each for each in names if not wanted or each in wanted]
            return [self._broker_entry(each, request, of_cluster=not name) for each in shown]
        if resource.resource_type == GROUP:
            if not name:
                return ErrorCode.INVALID_REQUEST, "Group name must not be empty"
            self.groups.refresh()
            groups, rows = self.groups, [row for row in GROUP_TABLE.values() if not wanted or row.name in wanted]
            return [_entry(row, groups.value(name, row), groups.synonyms(name, row), request) for row in rows]
        if resource.resource_type == CLIENT_METRICS:
            if not name:
                return ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            self.groups.refresh()
            own = self.groups.client_metrics.get(name, {})
            rows = [row for row in client_metrics.TABLE.values() if not wanted or row.name in wanted]
            return [
                _entry(row, client_metrics.value(own, row), client_metrics.synonyms(own, row), request) for row in rows
            ]
        return ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"

    def _broker_entry(
        self, name: str, request: DescribeConfigsRequest, *, of_cluster: bool
    ) -> DescribeConfigsResourceResult:
        """Describe a broker setting: the node's, or with `of_cluster` the default of the cluster."""
        row, dynamic = BROKER_TABLE.get(name), dynamic_row_of(name)
        secret = row.is_secret if row is not None else is_secret(name)
        synonyms = own_synonyms(self.settings, name)
        if of_cluster:
            synonyms = [each for each in synonyms if each.source is ConfigSource.DYNAMIC_DEFAULT_BROKER]
        value = synonyms[0].value if synonyms else None
        doc = None if row is None else row.doc
        return DescribeConfigsResourceResult(
            name,
            None if secret else value,
            name not in DYNAMIC,
            synonyms[0].source if synonyms else ConfigSource.DEFAULT,
            secret,
            _shown(synonyms, secret) if request.include_synonyms else [],
            dynamic.type if dynamic is not None else _type_of(self.settings, row),
            doc if request.include_documentation else None,
        )

    def list_config_resources(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesResponse:
        """Handle ListConfigResources. v0 lists only client metrics; since v1 an empty list of types means all types."""
        known = LISTED if context.api_version >= 1 else (CLIENT_METRICS,)
        wanted = request.resource_types or known
        if not set(wanted) <= set(known):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        listed = [ConfigResource(name, kind) for kind in known if kind in wanted for name in self._names(context, kind)]
        return ListConfigResourcesResponse(config_resources=listed)

    def _names(self, context: RequestContext, kind: int) -> Iterable[str]:
        if kind == TOPIC:
            self.catalogue.refresh()
            return self.catalogue.by_name
        if kind == BROKER:
            return [str(node.node_id) for node in self.nodes.alive(context.listener)]
        if kind == GROUP:
            self.groups.refresh()
            return self.groups.group_ids
        if kind == CLIENT_METRICS:
            self.groups.refresh()
            return self.groups.client_metrics
        return ()

    # Changing

    def alter_configs(self, _context: RequestContext, request: AlterConfigsRequest) -> CooperativeTask:
        """Handle AlterConfigs: replace a resource's own settings with exactly those of the request."""
        return CooperativeTask(self.catalogue.one_at_a_time.steps(self._alter(request)), is_change=True)

    def _alter(self, request: AlterConfigsRequest) -> TaskSteps:
        plan = Plan(replace=True)
        for each in request.resources:
            changes: Changes = yield from made_of(each.configs, lambda config: (config.name, SET, config.value))
            plan.ask(each.resource_type, each.resource_name, changes)
            yield None
        yield from self._change(plan, dry_run=request.validate_only)
        responses = []
        for (kind, name, _), outcome in zip(plan.asked, plan.outcomes, strict=True):
            responses.append(Altered(*outcome, kind, name))
            yield None
        yield from plan.let_go(request.resources)
        return AlterConfigsResponse(0, responses)

    def incremental_alter_configs(
        self, _context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> CooperativeTask:
        """Handle IncrementalAlterConfigs (KIP-339): change individual settings; list settings can be appended to and
        subtracted from.
        """
        return CooperativeTask(self.catalogue.one_at_a_time.steps(self._alter_incrementally(request)), is_change=True)

    def _alter_incrementally(self, request: IncrementalAlterConfigsRequest) -> TaskSteps:
        plan = Plan(replace=False)
        for each in request.resources:
            changes: Changes = yield from made_of(
                each.configs, lambda config: (config.name, config.config_operation, config.value)
            )
            plan.ask(each.resource_type, each.resource_name, changes)
            yield None
        yield from self._change(plan, dry_run=request.validate_only)
        responses = []
        for (kind, name, _), outcome in zip(plan.asked, plan.outcomes, strict=True):
            responses.append(IncrementallyAltered(*outcome, kind, name))
            yield None
        yield from plan.let_go(request.resources)
        return IncrementalAlterConfigsResponse(0, responses)

    def _change(self, plan: Plan, *, dry_run: bool) -> TaskSteps:
        """Check all resources, then change the topics in one write and the groups in another. There is an outcome for
        each resource; a rejected resource does not stop the others, as in Kafka.

        The catalogue is not locked while the resources are checked. Resources that other requests have changed in the
        meantime are checked again.
        """
        if any(kind in (GROUP, BROKER, CLIENT_METRICS) for kind, _ in plan.counts):
            self.groups.refresh()
        for index in range(len(plan.asked)):
            self._check(plan, index)
            yield None
        if dry_run:
            return
        with (yield from self.catalogue.changing_in_steps()):
            if plan.groups.changes or plan.brokers.changes or plan.client_metrics.changes:
                self.groups.refresh()
            known = self.catalogue.by_name
            again = plan.topics.outdated(lambda topic: topic.configs.own if known.get(topic.name) is topic else GONE)
            again += plan.groups.outdated(self.groups.own)
            again += plan.brokers.outdated(self.brokers.own)
            again += plan.client_metrics.outdated(lambda name: self.groups.client_metrics.get(name, {}))
            for index in again:
                self._check(plan, index)
            yield from plan.topics.make(self.catalogue.configure, plan.outcomes)
            yield from plan.groups.make(self.groups.configure, plan.outcomes)
            yield from plan.brokers.make(self.groups.configure_brokers, plan.outcomes)
            yield from plan.client_metrics.make(self.groups.configure_client_metrics, plan.outcomes)

    def _check(self, plan: Plan, index: int) -> None:
        """Plan the change of resource number `index`, or store the reason for its rejection as its outcome."""
        kind, name, changes = plan.asked[index]
        if plan.counts[kind, name] > 1:
            failure: Failure | None = INVALID_REQUEST, "Each resource must appear at most once."
        else:
            failure = malformed(changes)
        if failure is None and kind == TOPIC:
            failure = self._plan_topic(plan.topics, index, name, changes, replace=plan.replace)
        elif failure is None and kind == GROUP:
            failure = self._plan_group(plan.groups, index, name, changes, replace=plan.replace)
        elif failure is None and kind == BROKER:
            failure = self._wrong_broker(name) or self._plan_broker(plan.brokers, index, name, changes, plan.replace)
        elif failure is None and kind == CLIENT_METRICS:
            failure = self._plan_subscription(plan.client_metrics, index, name, changes, replace=plan.replace)
        elif failure is None:
            failure = INVALID_REQUEST, f"Unknown resource type {kind}"
        plan.outcomes[index] = failure or DONE

    def _plan_topic(
        self, plan: Planned[Topic, Configs], index: int, name: str, changes: Changes, *, replace: bool
    ) -> Failure | None:
        if not name:
            return INVALID_REQUEST, "Default topic resources are not allowed."
        topic = self._topic(name)
        if not isinstance(topic, Topic):
            return topic
        before = topic.configs.own

        def items_of(setting: str, operation: int) -> list[str]:
            return items_of_list(row_of(setting), operation, text_of(topic.configs.value(setting)))

        try:
            own = changed_settings({} if replace else before, changes, items_of)
            configs = Configs(self.settings, own)
        except InvalidConfig as error:
            return ErrorCode.INVALID_CONFIG, str(error)
        if own != before:
            plan.add(index, topic, configs, before)
        return None

    def _plan_group(
        self, plan: Planned[str, dict[str, str]], index: int, group_id: str, changes: Changes, *, replace: bool
    ) -> Failure | None:
        if not group_id:
            return INVALID_REQUEST, "Default group resources are not allowed."
        if len(group_id.encode()) > self.settings.group_id_max_bytes:
            return INVALID_REQUEST, f"The group id has more than {self.settings.group_id_max_bytes} bytes."
        groups = self.groups
        before = groups.own(group_id)

        def items_of(setting: str, operation: int) -> list[str]:
            raise not_a_list(operation, setting)

        try:
            own = changed_settings({} if replace else before, changes, items_of)
            groups.check(own)
        except InvalidConfig as error:
            return ErrorCode.INVALID_CONFIG, str(error)
        if own != before:
            more = bool(own) - bool(before)
            if more > 0 and len(groups) + plan.more >= self.settings.max_groups:
                count = len(groups) + plan.more
                return ErrorCode.POLICY_VIOLATION, f"{count} groups have settings, max.groups allows no more."
            plan.add(index, group_id, own, before, more)
        return None

    def _plan_broker(
        self, plan: Planned[str, dict[str, str]], index: int, name: str, changes: Changes, replace: bool
    ) -> Failure | None:
        name = name and str(int(name))  # "+0" is the broker 0, too
        before = self.brokers.own(name)

        def items_of(setting: str, operation: int) -> list[str]:
            return _broker_items(setting, before.get(setting), operation)

        try:
            own = changed_settings({} if replace else before, changes, items_of)
            self.brokers.check(name, own)
        except UnacceptableChange as error:
            return INVALID_REQUEST, str(error)
        except InvalidConfig as error:
            return ErrorCode.INVALID_CONFIG, str(error)
        if own != before:
            plan.add(index, name, own, before)
        return None

    def _plan_subscription(
        self, plan: Planned[str, dict[str, str]], index: int, name: str, changes: Changes, *, replace: bool
    ) -> Failure | None:
        if not name:
            return INVALID_REQUEST, "Subscription name can't be empty"
        if len(name) > client_metrics.MAX_NAME_CHARACTERS:
            return INVALID_REQUEST, f"The name has more than {client_metrics.MAX_NAME_CHARACTERS} characters."
        known = self.groups.client_metrics
        before = known.get(name, {})

        def items_of(setting: str, operation: int) -> list[str]:
            row = client_metrics.row_of(setting)
            return items_of_list(row, operation, client_metrics.value(before, row))

        try:
            own = changed_settings({} if replace else before, changes, items_of)
            client_metrics.check(own)
        except UnacceptableChange as error:
            return INVALID_REQUEST, str(error)
        except InvalidConfig as error:
            return ErrorCode.INVALID_CONFIG, str(error)
        if own != before:
            more = bool(own) - bool(before)
            if more > 0 and len(known) + plan.more >= client_metrics.MAX_SUBSCRIPTIONS:
                return (
                    ErrorCode.POLICY_VIOLATION,
                    f"There are {len(known) + plan.more} subscriptions, which is the limit.",
                )
            plan.add(index, name, own, before, more)
        return None

    def _topic(self, name: str) -> Topic | Failure:
        reason = why_invalid(name)
        if reason is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, reason
        topic = self.catalogue.by_name.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        return topic

    def _wrong_broker(self, name: str) -> Failure | None:
        """Return the failure unless a broker resource is named by this node's id, or empty for all brokers."""
        if not name:
            return None
        digits = name.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            return ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name[:100]}"
        if len(digits) > 10 or int(name) != self.node_id:
            message = f"Unexpected broker id, expected {self.node_id} or empty string, but received {name[:100]}"
            return ErrorCode.INVALID_REQUEST, message
        return None


def _entry(
    row: TopicConfig, value: str, synonyms: list[Synonym], request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    """Describe a setting of a topic, a group or a subscription."""
    return DescribeConfigsResourceResult(
        row.name,
        value,
        False,
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        False,
        _shown(synonyms) if request.include_synonyms else [],
        row.type,
        _documentation(row.doc, row.has_effect) if request.include_documentation else None,
    )


def _broker_items(name: str, own: str | None, operation: int) -> list[str]:
    """Return the items of a broker's list setting (ConfigAdminManager.prepareIncrementalConfigs)."""
    row, known = dynamic_row_of(name), BROKER_TABLE.get(name)
    if row is None and known is None and name not in FIXED:
        raise InvalidConfig(f"Unknown config name: {name}")
    if row is None or row.type is not ConfigType.LIST:
        raise InvalidConfig(f"Config value {OPERATIONS[operation].lower()} is not allowed for config key: {name}")
    default = "" if known is None else text_of(known.default)
    return [each for each in (default if own is None else own).split(",") if each]


def _shown(synonyms: Iterable[Synonym], is_secret: bool = False) -> list[DescribeConfigsSynonym]:
    return [DescribeConfigsSynonym(each.name, None if is_secret else each.value, each.source) for each in synonyms]


def _documentation(doc: str, has_effect: bool) -> str:
    return doc if has_effect else f"{doc} Stored, without effect here."


def _type_of(settings: Settings, row: Setting | None) -> ConfigType:
    """Return Kafka's nearest config type of a setting that changes with a restart only."""
    if row is None:
        return ConfigType.UNKNOWN
    if row.is_secret:
        return ConfigType.PASSWORD
    value = getattr(settings, row.attribute)
    sample = value if value is not None else row.default
    if isinstance(sample, bool):
        return ConfigType.BOOLEAN
    if isinstance(sample, float):
        return ConfigType.DOUBLE
    if isinstance(sample, tuple):
        return ConfigType.LIST
    if isinstance(sample, int) or row.kind.startswith("int"):
        return ConfigType.LONG if isinstance(sample, int) and sample > INT_MAX else ConfigType.INT
    return ConfigType.STRING
