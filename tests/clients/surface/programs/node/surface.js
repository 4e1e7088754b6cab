// Runs the methods of a client, tells how each ends, and finds those that nobody runs: the lines of ../README.md.
'use strict'

const args = Object.fromEntries(process.argv.slice(2).map(argument => argument.split(/=(.*)/s).slice(0, 2)))
const TIMEOUT_MS = 10000

const now = () => Date.now() / 1000

// Plain JSON: buffers as text, lists in an order that is no chance.
function shape(value) {
  if (value === undefined || value === null || typeof value === 'function') return null
  if (typeof value === 'bigint') return value.toString()
  if (Buffer.isBuffer(value)) return /^[\x20-\x7e]*$/.test(value) ? value.toString() : `${value.length} bytes`
  if (Array.isArray(value)) {
    const items = value.map(shape)
    return items.sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))
  }
  if (typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shape(each)]))
  return value
}

// An error by Kafka's name for it, or those of what it tells of, or its class.
function named(error) {
  const inner = error.errors || (error.groups && error.groups.map(({ error }) => error)) || (error.cause && [error.cause])
  return error.type || (inner && inner.map(named).sort().join(', ')) || error.name || `${error}`
}

class Part {
  constructor(name, methods) {
    this.name = name
    this.methods = methods
    this.seen = new Set()
  }

  say(method, text, outcome, detail, began) {
    if (!this.methods.includes(method)) throw new Error(`${this.name} has no method ${method}`)
    this.seen.add(method)
    const times = began ? { began, ended: now() } : {}
    const line = { part: this.name, method, case: text, outcome, detail, ...times }
    process.stdout.write(JSON.stringify(line) + '\n')
  }

  // Methods that reach no broker.
  local(why, ...methods) {
    for (const method of methods) this.say(method, '', 'local', why)
  }

  // A case of a method: what `call` returns, or the error that it ends with.
  async run(method, text, call) {
    this.say(method, text, ...(await this.outcome(call)))
  }

  // Cases that last long and have nothing to do with each other.
  async together(...cases) {
    const outcomes = await Promise.all(cases.map(([, , call]) => this.outcome(call)))
    cases.forEach(([method, text], number) => this.say(method, text, ...outcomes[number]))
  }

  async outcome(call) {
    const began = now()
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer')), TIMEOUT_MS)
    })
    try {
      return ['ok', shape(await Promise.race([call(), late])), began]
    } catch (error) {
      return ['error', named(error), began]
    } finally {
      clearTimeout(timer)
    }
  }

  end() {
    for (const method of this.methods) if (!this.seen.has(method)) this.say(method, '', 'not covered', null)
  }
}

// Waits for what a broker tells only a moment after it has been changed.
async function until(holds) {
  for (let turn = 0; turn < 500; turn += 1) {
    if (await holds()) return
    await new Promise(resolve => setTimeout(resolve, 20))
  }
  throw new Error('waited too long')
}

const began = Date.now() - 60000

// When a record was made: a second after the one before it.
const timeMs = number => began + 1000 * number

module.exports = { Part, timeMs, until, bootstrap: args.bootstrap, prefix: args.prefix, named: what => `${args.prefix}-${what}` }
