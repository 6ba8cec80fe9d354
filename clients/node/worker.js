/** A worker: registers at a broker, calls your functions, and sends back what they return. See docs/protocol.md. */

import { randomBytes, randomUUID } from "node:crypto"
import { EMPTY, four, Link, PART, read, write } from "./link.js"

/** Until a heartbeat is granted. */
const FIRST_MS = 1000
/** Without a message for so many heartbeats, the other side is lost. */
const SILENT = 3

/**
 * @typedef {object} Task
 * @property {Buffer} body
 * @property {string} service
 * @property {string} messageId
 * @property {number} attempt 1 at first; more if it was given out before
 * @property {number} timeLeftMs when it came
 * @property {object} header all fields, with `headers` that the client gave
 * @property {AbortSignal} signal aborted when nobody wants the answer any more
 */

export class Worker {
  #services = new Map()
  #tasks = new Map()
  #token = randomBytes(16).toString("hex")
  #state = "offline"
  #heartbeatMs = FIRST_MS
  #heardAt = 0
  #pingAt = 0
  #timer
  #gone

  /**
   * @param {string} address
   * @param {{identity?: string, slots?: number, socketOptions?: object}} [options]
   */
  constructor(address = "tcp://127.0.0.1:7101", options = {}) {
    this.address = address
    this.identity = options.identity ?? `node-${randomUUID()}`
    this.slots = options.slots ?? 1
    this.socketOptions = options.socketOptions
  }

  /**
   * What it returns is the answer: bytes, text or nothing. An async generator gives a stream; what it throws is the
   * client's ERROR.
   * @param {string} name @param {(body: Buffer, task: Task) => unknown} run
   */
  service(name, run) {
    this.#services.set(name, run)
    return this
  }

  /** The same with values, as JSON. @param {string} name @param {(args: any, task: Task) => unknown} run */
  serves(name, run) {
    return this.service(name, async (body, task) => {
      const value = await run(body.length ? JSON.parse(body.toString()) : {}, task)
      return JSON.stringify(value ?? null)
    })
  }

  /** Serves until `stop`; resolved when the last task is answered. */
  run() {
    const owner = { heard: (frames) => this.#heard(frames), up: () => this.#connect(), lost: () => this.#lost() }
    this.link = new Link(this.address, owner, this.socketOptions)
    return new Promise((resolve) => (this.#gone = resolve))
  }

  /** Takes no more tasks. */
  stop() {
    const isKnown = this.#state === "greeting" || this.#state === "ready"
    this.#state = "draining"
    if (isKnown && this.link.isUp) this.#tell("DISCONNECT")
    else this.#leave()
  }

  // -- the session --------------------------------------------------------------------------------------------------

  #connect() {
    if (this.#state === "draining") return this.#leave()
    this.#forget()
    this.#state = "connecting"
    this.#heartbeatMs = FIRST_MS
    this.#heardAt = performance.now()
    this.#sayConnect()
    this.#tick()
  }

  #sayConnect() {
    const { identity, slots } = this
    this.#tell("CONNECT", { identity, services: [...this.#services.keys()], slots, worker_token: this.#token })
  }

  #tell(request, fields) {
    this.link.send([EMPTY, write(request, "REQUEST", fields), EMPTY])
    this.#pingAt = performance.now() + this.#heartbeatMs
  }

  /** Sends what is due, and notices silence. */
  #tick() {
    clearTimeout(this.#timer)
    const now = performance.now()
    if (now >= this.#heardAt + SILENT * this.#heartbeatMs) return this.link.renew()
    if (now >= this.#pingAt - 1) {
      if (this.#state === "connecting") this.#sayConnect()
      else this.#tell("PING")
    }
    const due = Math.min(this.#pingAt, this.#heardAt + SILENT * this.#heartbeatMs)
    this.#timer = setTimeout(() => this.#tick(), Math.max(1, due - performance.now()))
  }

  #lost() {
    clearTimeout(this.#timer)
    this.#forget()
    if (this.#state === "draining") this.#leave()
    else this.#state = "offline"
  }

  /** The tickets are void: the broker has ended these tasks, or will. */
  #forget() {
    for (const task of this.#tasks.values()) task.lose()
    this.#tasks = new Map()
  }

  #leave() {
    clearTimeout(this.#timer)
    this.#forget()
    this.link.close()
    this.#gone()
  }

  // -- what comes ---------------------------------------------------------------------------------------------------

  #heard([envelope, header, body]) {
    this.#heardAt = performance.now()
    const fields = read(header)
    switch (`${fields.request} ${fields.type}`) {
      case "TASK REQUEST":
        if (this.#state !== "connecting" && typeof fields.service === "string") this.#take(envelope, fields, body)
        break
      case "CONFIG RESPONSE":
        if (this.#state === "connecting" && fields.heartbeat_ms > 0) this.#greet(fields.heartbeat_ms)
        break
      case "PONG RESPONSE":
        if (this.#state === "greeting") this.#state = "ready"
        this.link.settle()
        break
      case "PING REQUEST":
        this.#tell("PING")
        break
      case "CANCEL REQUEST":
        this.#tasks.get(body.toString("latin1"))?.cancel()
        break
      case "CREDIT REQUEST":
        if (body.length >= 4) this.#tasks.get(body.subarray(4).toString("latin1"))?.grant(body.readUInt32BE(0))
        break
      case "DISCONNECT RESPONSE":
        if (this.#state === "draining") this.#leave()
        break
      case "ERROR RESPONSE":
        this.#refused(String(fields.reason).split(":")[0])
    }
  }

  #greet(heartbeatMs) {
    this.#state = "greeting"
    this.#heartbeatMs = heartbeatMs
    this.#tell("PING")
    this.#tick()
  }

  #refused(code) {
    if (code === "not_connected") this.#connect()
    // Not now, or somebody else has our name: later, over another connection.
    else if (this.#state === "connecting" || code === "conflict") this.link.renew()
  }

  // -- tasks --------------------------------------------------------------------------------------------------------

  async #take(ticket, header, body) {
    const run = this.#services.get(header.service)
    const task = new Running(header)
    this.#tasks.set(ticket.toString("latin1"), task)
    if (!run) return this.#answer(ticket, task, { outcome: "ERROR", reason: "no_service: this worker does not do it" })
    const { service, message_id: messageId, attempt, timeout_ms: timeLeftMs } = header
    try {
      const { signal } = task
      const given = { body, service, messageId, attempt, timeLeftMs, header, signal }
      const result = await run(body, given)
      if (result?.[Symbol.asyncIterator]) await this.#stream(ticket, task, result)
      else this.#answer(ticket, task, {}, result)
    } catch (error) {
      const outcome = task.signal.aborted ? "UNKNOWN" : "ERROR"
      const reason = task.signal.aborted ? `cancelled: ${error.message}` : `${error.name}: ${error.message}`
      this.#answer(ticket, task, { outcome, reason })
    }
  }

  async #stream(ticket, task, parts) {
    if (!task.wanted) throw new TypeError("this service gives a stream, and its client did not ask for one")
    let sent = 0
    for await (const part of parts) {
      while (sent >= task.wanted && !task.isOver) await task.news()
      if (task.isOver) break
      this.link.send([Buffer.concat([ticket, four(++sent)]), PART, part])
    }
    if (task.signal.aborted) throw new Error("it was told to stop")
    this.#answer(ticket, task, { parts: sent })
  }

  /** Unless its ticket is void. */
  #answer(ticket, task, fields, body) {
    const key = ticket.toString("latin1")
    if (this.#tasks.get(key) !== task) return
    this.#tasks.delete(key)
    const { message_id, service } = task.header
    const content = typeof body === "string" || Buffer.isBuffer(body) ? body : EMPTY
    this.link.send([ticket, write("TASK", "RESPONSE", { message_id, service, ...fields }), content])
    this.#pingAt = performance.now() + this.#heartbeatMs
  }
}

/** A task whose function was called. */
class Running {
  #abort = new AbortController()
  #wake
  isOver = false

  constructor(header) {
    this.header = header
    this.wanted = header.credit ?? 0
  }

  get signal() {
    return this.#abort.signal
  }

  /** Up to this part they are wanted. @param {number} last */
  grant(last) {
    if (last > this.wanted && this.header.credit) this.wanted = last
    this.#wake?.()
  }

  cancel() {
    this.#abort.abort(new Error("cancelled"))
    this.lose()
  }

  lose() {
    this.isOver = true
    this.#wake?.()
  }

  news() {
    return new Promise((resolve) => (this.#wake = resolve))
  }
}
