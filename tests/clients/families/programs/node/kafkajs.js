// kafkajs. The line protocol is that of ../README.md; NODE_PATH leads to kafkajs and its codecs.
'use strict'

const readline = require('readline')
const { CompressionCodecs, CompressionTypes, Kafka, logLevel, AssignerProtocol } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = new (require('kafkajs-lz4'))().codec

const args = Object.fromEntries(process.argv.slice(2).map(argument => argument.split(/=(.*)/s).slice(0, 2)))
const say = (...words) => process.stdout.write(words.join(' ') + '\n')
const numbers = partitions => [...partitions].sort((a, b) => a - b).join(',') || '-'
const pairs = offsets => offsets.map(([partition, offset]) => `${partition}:${offset}`).join(',') || '-'
const kafka = new Kafka({ brokers: [args.bootstrap], clientId: 'kafkajs-program', logLevel: logLevel.ERROR })

async function consume() {
  const consumer = kafka.consumer({
    groupId: args.group,
    sessionTimeout: Number(args.session_timeout_ms),
    heartbeatInterval: Number(args.heartbeat_interval_ms),
    rebalanceTimeout: 60000,
    maxWaitTimeInMs: 200,
    readUncommitted: args.isolation !== 'read_committed',
  })
  let owned = []
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (owned.length) say('REVOKED', numbers(owned)) // kafkajs tells only what is assigned
    owned = payload.memberAssignment[args.topic] || []
    say('ASSIGNED', numbers(owned))
  })
  consumer.on(consumer.events.REBALANCING, () => {
    if (owned.length) say('REVOKED', numbers(owned))
    owned = []
  })
  consumer.on(consumer.events.COMMIT_OFFSETS, ({ payload }) => {
    const [topic] = payload.topics
    if (topic) say('COMMITTED', pairs(topic.partitions.map(({ partition, offset }) => [partition, offset])))
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [args.topic], fromBeginning: true })
  await consumer.run({
    eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, heartbeat }) => {
      for (const { offset, value } of batch.messages) {
        say('RECORD', batch.partition, offset, value.toString())
        resolveOffset(offset)
      }
      await commitOffsetsIfNecessary()
      await heartbeat()
    },
  })
  const close = async () => {
    await consumer.disconnect()
    say('CLOSED')
    process.exit(0)
  }
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', line => line.trim() === 'close' && lines.close())
  lines.on('close', close)
}

async function answer(admin, verb, group, topic, words) {
  switch (verb) {
    case 'list': {
      const { groups } = await admin.listGroups()
      return groups.map(({ groupId }) => groupId).join(' ')
    }
    case 'describe': {
      const { groups: [described] } = await admin.describeGroups([group])
      const owned = described.members.flatMap(({ memberAssignment }) =>
        Object.values(AssignerProtocol.MemberAssignment.decode(memberAssignment).assignment).flat()
      )
      return `${described.state} ${described.members.length} ${numbers(owned)}`
    }
    case 'offsets': {
      const topics = await admin.fetchOffsets({ groupId: group })
      return pairs(topics.flatMap(({ partitions }) => partitions.map(each => [each.partition, each.offset])))
    }
    case 'alter': {
      const partitions = words.split(',').map(pair => {
        const [partition, offset] = pair.split(':')
        return { partition: Number(partition), offset }
      })
      await admin.setOffsets({ groupId: group, topic, partitions })
      return ''
    }
    case 'delete':
      await admin.deleteGroups([group])
      return ''
  }
  throw new Error(`unknown: ${verb}`)
}

async function administer() {
  const admin = kafka.admin()
  await admin.connect()
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, group, topic, words] = line.split(' ')
    try {
      say('OK', await answer(admin, verb, group, topic, words))
    } catch (error) {
      const code = error.groups ? error.groups[0].errorCode : error.code // deleteGroups wraps an error per group
      say('ERROR', code === undefined ? -1 : code, error.message.replace(/\n/g, ' '))
    }
  }
  await admin.disconnect()
}

async function produce() {
  const codecs = { none: 0, gzip: 1, snappy: 2, lz4: 3 }
  const transactional = args.transactional_id !== undefined
  const producer = kafka.producer(
    transactional ? { transactionalId: args.transactional_id, idempotent: true, maxInFlightRequests: 1 } : {}
  )
  await producer.connect()
  const count = Number(args.count)
  const values = Array.from({ length: count }, (_, n) => `${args.prefix}-${String(n).padStart(6, '0')}`)
  const write = (sender, values) => {
    const messages = values.map(value => ({ value }))
    return sender.send({ topic: args.topic, acks: -1, compression: codecs[args.compression], messages })
  }
  if (transactional) {
    const committed = await producer.transaction()
    await write(committed, values)
    await committed.commit()
    const aborted = await producer.transaction()
    await write(aborted, values.map(value => `aborted-${value}`))
    await aborted.abort()
  } else {
    await write(producer, values)
  }
  await producer.disconnect()
  say('PRODUCED', count)
}

const modes = { consume, admin: administer, produce }
modes[args.mode]().catch(error => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
})
