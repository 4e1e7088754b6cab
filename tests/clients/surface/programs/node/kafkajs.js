// kafkajs: admin, producer, its transactions, consumer. NODE_PATH leads to it.
'use strict'

const { ConfigResourceTypes, AclResourceTypes, AclOperationTypes, AclPermissionTypes, Kafka, logLevel } = require('kafkajs')
const { ResourcePatternTypes } = require('kafkajs')
const { Part, until, timeMs, bootstrap, prefix, named } = require('./surface.js')

const kafka = new Kafka({
  brokers: [bootstrap],
  clientId: prefix,
  logLevel: logLevel.NOTHING,
  retry: { retries: 5, initialRetryTime: 50, maxRetryTime: 200 },
})
const [one, two, absent, group, nobody] = ['one', 'two', 'absent', 'group', 'nobody'].map(named)
const mine = names => names.filter(name => name.startsWith(prefix))
const TOPIC = ConfigResourceTypes.TOPIC

async function topics(admin, part) {
  await part.run('connect', '', () => admin.connect())
  await part.run('createTopics', '', () =>
    admin.createTopics({
      topics: [
        { topic: one, numPartitions: 2 },
        { topic: two, numPartitions: 1, configEntries: [{ name: 'retention.ms', value: '86400000' }] },
      ],
    })
  )
  const create = topic => () => admin.createTopics({ topics: [topic] })
  await part.run('createTopics', 'exists', create({ topic: one }))
  await part.run('createTopics', 'a bad name', create({ topic: 'a/b' }))
  await part.run('createTopics', 'replication factor of 3', create({ topic: absent, replicationFactor: 3 }))
  await part.run('createTopics', 'validated', () =>
    admin.createTopics({ validateOnly: true, waitForLeaders: false, topics: [{ topic: absent }] })
  )
  await part.run('createTopics', 'replicas assigned', create({
    topic: named('three'), replicaAssignment: [{ partition: 0, replicas: [0] }],
  }))
  await until(async () => mine(await admin.listTopics()).length === 3)
  await part.run('listTopics', '', async () => mine(await admin.listTopics()))
  const partitions = (topic, count) => () => admin.createPartitions({ topicPartitions: [{ topic, count }] })
  await part.run('createPartitions', '', partitions(two, 3))
  await part.run('createPartitions', 'fewer', partitions(two, 1))
  await until(async () => (await admin.fetchTopicMetadata({ topics: [two] })).topics[0].partitions.length === 3)
  await part.run('fetchTopicMetadata', '', () => admin.fetchTopicMetadata({ topics: [one, two] }))
  await part.run('fetchTopicMetadata', 'no such topic', () => admin.fetchTopicMetadata({ topics: [absent] }))
  await part.run('describeCluster', '', () => admin.describeCluster())
  const describe = (resources, includeSynonyms) => () => admin.describeConfigs({ resources, includeSynonyms })
  await part.run('describeConfigs', '', describe([{ type: TOPIC, name: one }], true))
  await part.run('describeConfigs', 'some', describe([{ type: TOPIC, name: two, configNames: ['retention.ms'] }], false))
  await part.run('describeConfigs', 'no such topic', describe([{ type: TOPIC, name: absent }], false))
  const alter = (name, value, validateOnly) => () =>
    admin.alterConfigs({ validateOnly, resources: [{ type: TOPIC, name: two, configEntries: [{ name, value }] }] })
  await part.run('alterConfigs', '', alter('cleanup.policy', 'compact', false))
  await part.run('alterConfigs', 'a bad value', alter('cleanup.policy', 'burn', false))
  await part.run('alterConfigs', 'validated', alter('no.such.config', '1', true))
  const altered = describe([{ type: TOPIC, name: two, configNames: ['retention.ms', 'cleanup.policy'] }], false)
  await until(async () => JSON.stringify(await altered()).includes('"compact"'))
  await part.run('describeConfigs', 'altered', altered)
}

async function offsets(admin, part) {
  const seek = partition => [{ partition, offset: '1' }]
  // Kafka answers EndTxn before it writes the marker: 9 records and 2 markers, and no transaction is open.
  const isEnded = async () => (await admin.fetchTopicOffsets(one)).some(({ high }) => high === '11')
  await until(isEnded)
  await part.run('fetchTopicOffsets', '', () => admin.fetchTopicOffsets(one))
  await part.run('fetchTopicOffsets', 'no such topic', () => admin.fetchTopicOffsets(absent))
  await part.run('fetchTopicOffsetsByTimestamp', '', () => admin.fetchTopicOffsetsByTimestamp(one, timeMs(1)))
  await part.run('fetchTopicOffsetsByTimestamp', 'the end', () => admin.fetchTopicOffsetsByTimestamp(one))
  // Each of them joins a group and waits five seconds for a fetch.
  await part.together(
    ['setOffsets', '', () => admin.setOffsets({ groupId: group, topic: one, partitions: seek(0) })],
    ['setOffsets', 'no such partition', () => admin.setOffsets({ groupId: absent, topic: one, partitions: seek(9) })],
    ['fetchOffsets', 'resolved', () => admin.fetchOffsets({ groupId: named('resolved'), topics: [one], resolveOffsets: true })],
    ['resetOffsets', '', () => admin.resetOffsets({ groupId: named('reset'), topic: one, earliest: true })],
  )
  await part.run('fetchOffsets', '', () => admin.fetchOffsets({ groupId: group, topics: [one] }))
  await part.run('fetchOffsets', 'all topics', () => admin.fetchOffsets({ groupId: group }))
  await part.run('fetchOffsets', 'no such group', () => admin.fetchOffsets({ groupId: nobody }))
  await part.run('fetchOffsets', 'reset', () => admin.fetchOffsets({ groupId: named('reset'), topics: [one] }))
  const deletion = offset => () => admin.deleteTopicRecords({ topic: one, partitions: [{ partition: 0, offset }] })
  await part.run('deleteTopicRecords', '', deletion('1'))
  await part.run('deleteTopicRecords', 'past the end', deletion('1000'))
  await part.run('fetchTopicOffsets', 'records deleted', () => admin.fetchTopicOffsets(one))
}

async function groups(admin, part) {
  await part.run('listGroups', '', async () =>
    (await admin.listGroups()).groups.filter(({ groupId }) => groupId.startsWith(prefix))
  )
  await part.run('describeGroups', '', () => admin.describeGroups([group, nobody]))
  await part.run('deleteGroups', '', () => admin.deleteGroups([group]))
  await part.run('deleteGroups', 'no such group', () => admin.deleteGroups([nobody]))
}

async function others(admin, part) {
  const anything = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: one,
    resourcePatternType: ResourcePatternTypes.LITERAL,
    operation: AclOperationTypes.READ,
    permissionType: AclPermissionTypes.ALLOW,
  }
  const entry = { ...anything, principal: 'User:me', host: '*' }
  await part.run('createAcls', '', () => admin.createAcls({ acl: [entry] }))
  await part.run('describeAcls', '', () => admin.describeAcls(anything))
  await part.run('deleteAcls', '', () => admin.deleteAcls({ filters: [anything] }))
  const assignment = [{ partition: 0, replicas: [0] }]
  await part.run('alterPartitionReassignments', '', () =>
    admin.alterPartitionReassignments({ topics: [{ topic: one, partitionAssignment: assignment }] })
  )
  await part.run('listPartitionReassignments', '', () =>
    admin.listPartitionReassignments({ topics: [{ topic: one, partitions: [0] }] })
  )
  await part.run('deleteTopics', '', () => admin.deleteTopics({ topics: [two] }))
  await part.run('deleteTopics', 'no such topic', () => admin.deleteTopics({ topics: [absent] }))
  part.local('what its events are called, and who hears of them', 'events', 'on', 'logger')
  await part.run('disconnect', '', () => admin.disconnect())
  part.end()
}

const messages = count =>
  Array.from({ length: count }, (_, number) => ({
    partition: 0, value: `value-${number}`, timestamp: `${timeMs(number)}`, headers: { number: `${number}` },
  }))

async function produce() {
  const producer = kafka.producer({ allowAutoTopicCreation: false })
  const part = new Part('producer', Object.keys(producer))
  part.local('what its events are called, and who hears of them', 'events', 'on', 'logger')
  part.local('what it was made with', 'isIdempotent')
  await part.run('connect', '', () => producer.connect())
  await part.run('send', '', () => producer.send({ topic: one, messages: messages(3) }))
  await part.run('send', 'acks=1, gzip', () => producer.send({ topic: one, acks: 1, compression: 1, messages: messages(2) }))
  await part.run('send', 'no such topic', () => producer.send({ topic: absent, messages: messages(1) }))
  await part.run('sendBatch', '', () => producer.sendBatch({ topicMessages: [{ topic: one, messages: messages(1) }] }))
  const careful = kafka.producer({ transactionalId: named('txn'), idempotent: true, maxInFlightRequests: 1 })
  await careful.connect()
  await part.run('transaction', '', async () => {
    const begun = await careful.transaction()
    const of = new Part('transaction', Object.keys(begun))
    of.local('what it knows of itself', 'isActive')
    await of.run('send', '', () => begun.send({ topic: one, messages: messages(1) }))
    await of.run('sendBatch', '', () => begun.sendBatch({ topicMessages: [{ topic: one, messages: messages(1) }] }))
    const positions = { topics: [{ topic: one, partitions: [{ partition: 0, offset: '1' }] }] }
    await of.run('sendOffsets', '', () => begun.sendOffsets({ consumerGroupId: group, ...positions }))
    await of.run('commit', '', () => begun.commit())
    const second = await careful.transaction()
    await second.send({ topic: one, messages: messages(1) })
    await of.run('abort', '', () => second.abort())
    of.end()
    return Object.keys(begun).length > 0
  })
  await careful.disconnect()
  await part.run('disconnect', '', () => producer.disconnect())
  part.end()
}

async function consume() {
  const consumer = kafka.consumer({ groupId: named('members'), maxWaitTimeInMs: 100, heartbeatInterval: 300 })
  const part = new Part('consumer', Object.keys(consumer))
  part.local('what its events are called, and who hears of them', 'events', 'on', 'logger')
  part.local('notes it for later fetches', 'pause', 'paused', 'resume')
  await part.run('connect', '', () => consumer.connect())
  await part.run('subscribe', '', () => consumer.subscribe({ topics: [one], fromBeginning: true }))
  const seen = []
  await part.run('run', '', async () => {
    const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
    await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => seen.push(message) })
    const { payload } = await joined
    await until(() => seen.length > 0)
    const { groupProtocol, isLeader, memberAssignment } = payload
    return { groupProtocol, isLeader, memberAssignment, offset: seen[0].offset, value: seen[0].value }
  })
  await part.run('commitOffsets', '', () => consumer.commitOffsets([{ topic: one, partition: 0, offset: '1' }]))
  await part.run('commitOffsets', 'no such partition', () => consumer.commitOffsets([{ topic: one, partition: 9, offset: '1' }]))
  await part.run('describeGroup', '', () => consumer.describeGroup())
  await part.run('seek', '', async () => {
    const before = seen.length
    consumer.seek({ topic: one, partition: 0, offset: '2' })
    await until(() => seen.slice(before).some(({ offset }) => offset === '2'))
  })
  const admin = kafka.admin()
  const of = new Part('admin', Object.keys(admin))
  await admin.connect()
  await of.run('deleteGroups', 'with a member', () => admin.deleteGroups([named('members')]))
  await of.run('setOffsets', 'with a member', () =>
    admin.setOffsets({ groupId: named('members'), topic: one, partitions: [{ partition: 0, offset: '1' }] })
  )
  await admin.disconnect()
  await part.run('stop', '', () => consumer.stop())
  await part.run('disconnect', '', () => consumer.disconnect())
  part.end()
}

async function main() {
  const admin = kafka.admin()
  const part = new Part('admin', Object.keys(admin))
  await topics(admin, part)
  await until(async () => (await admin.describeGroups([group])).groups[0].errorCode === 0) // its topic is made now
  await produce()
  await offsets(admin, part)
  await groups(admin, part)
  await consume()
  await others(admin, part)
}

main().then(() => process.exit(0), error => {
  console.error(error)
  process.exit(1)
})
