/** A client: sends tasks and gets their outcomes. See docs/protocol.md, "A client's life". */

import { randomBytes, randomUUID } from "node:crypto"
import { CANCEL, CREDIT, EMPTY, four, Link, PART, read, write } from "./link.js"

/** How long after its deadline the outcome of a task may come. */
const GRACE_MS = 1000
/** The pause before a task is sent again: doubling, between these. */
const PAUSE_MS = [100, 2000]
const OUTCOMES = new Set(["OK", "ERROR", "REJECTED", "UNKNOWN"])

/** How a task ended, if not OK. */
export class TaskError extends Error {
  /** @param {"ERROR" | "REJECTED" | "UNKNOWN"} outcome @param {string} reason @param {Buffer} [body] */
  constructor(outcome, reason, body = EMPTY) {
    super(`${outcome}: ${reason}`)
    this.name = "TaskError"
    this.outcome = outcome
    this.reason = reason
    this.body = body
  }
}

/**
 * @typedef {object} TaskOptions
 * @property {number} [timeoutMs] 30,000 unless given
 * @property {number} [delayMs]
 * @property {string} [messageId]
 * @property {boolean} [idempotent] it may run twice: it is sent again when nobody knows what became of it
 * @property {number} [credit] of a stream: how many parts may be under way
 * @property {object} [headers] for the worker's function
 * @property {string} [contentType]
 * @property {AbortSignal} [signal] cancels the task
 */

export class Client {
  #open = new Map()
  #unsent = new Set()
  #number = 0n
  /** By this, brokers tell our ids from those of others. */
  #token = randomBytes(16).toString("hex")
  #link

  /** @param {string} address @param {object} [socketOptions] such as curveServerKey */
  constructor(address = "tcp://127.0.0.1:7100", socketOptions) {
    const owner = { heard: (frames) => this.#heard(frames), up: () => this.#up(), lost: () => this.#lost() }
    this.#link = new Link(address, owner, socketOptions)
  }

  /**
   * Send a task, and wait for its answer; a TaskError if it ends otherwise.
   * @param {string} service @param {Buffer | string} [body] @param {TaskOptions} [options] @returns {Promise<Buffer>}
   */
  request(service, body = EMPTY, options = {}) {
    return new Promise((resolve, reject) => this.#submit(service, body, options, resolve, reject))
  }

  /** The same with values, as JSON. @param {string} service @param {unknown} args @param {TaskOptions} [options] */
  async call(service, args = {}, options = {}) {
    const body = await this.request(service, JSON.stringify(args), { ...options, contentType: "application/json" })
    return body.length ? JSON.parse(body.toString()) : undefined
  }

  /**
   * The parts of the answer, as they come; whoever leaves early cancels the task.
   * @param {string} service @param {Buffer | string} [body] @param {TaskOptions} [options]
   * @returns {AsyncGenerator<Buffer>}
   */
  async *stream(service, body = EMPTY, options = {}) {
    const credit = options.credit ?? 16
    let wake, failure
    let isOver = false
    const parts = []
    const end = (error) => ((failure = error), (isOver = true), wake?.())
    const task = this.#submit(service, body, { ...options, credit }, () => end(), end)
    task.wanted = credit
    task.part = (part) => (parts.push(part), wake?.())
    let taken = 0
    try {
      while (true) {
        while (parts.length) {
          yield parts.shift()
          taken += 1
          if (task.wanted - taken <= credit / 2 && !isOver) this.#want(task, taken + credit)
        }
        if (isOver) break
        await new Promise((resolve) => (wake = resolve))
      }
      if (failure) throw failure
    } finally {
      if (!isOver) this.#cancel(task)
    }
  }

  /** What is open ends: UNKNOWN if it was sent, REJECTED if not. */
  close() {
    this.#link.close()
    for (const task of [...this.#open.values(), ...this.#unsent]) {
      const outcome = task.isSent || task.mayHaveRun ? "UNKNOWN" : "REJECTED"
      this.#end(task, new TaskError(outcome, "broker_lost: the client was closed"))
    }
  }

  // -- sending ------------------------------------------------------------------------------------------------------

  #submit(service, body, options, resolve, reject) {
    const timeoutMs = options.timeoutMs ?? 30_000
    const now = performance.now()
    const task = { service, body, options, resolve, reject, timeoutMs, came: 0, tries: 0, isSent: false }
    task.begins = now + (options.delayMs ?? 0)
    task.deadline = task.begins + timeoutMs
    task.messageId = options.messageId ?? (options.idempotent ? randomUUID() : undefined)
    task.timer = setTimeout(() => this.#overdue(task), task.deadline - now)
    task.timer.unref?.()
    this.#unsent.add(task)
    options.signal?.addEventListener("abort", () => this.#cancel(task), { once: true })
    if (options.signal?.aborted) this.#cancel(task)
    else if (this.#link.isUp) this.#send(task)
    return task
  }

  #send(task) {
    const { options } = task
    const now = performance.now()
    const delayMs = Math.ceil(task.begins - now)
    // A header that the broker has seen before is cheap for it, so what is left is only said if it matters.
    const waited = now - task.begins > task.timeoutMs / 8
    const header = { service: task.service, timeout_ms: waited ? Math.max(1, Math.floor(task.deadline - now)) : task.timeoutMs }
    if (task.messageId !== undefined) Object.assign(header, { message_id: task.messageId, client_token: this.#token })
    if (options.idempotent) header.idempotent = true
    if (options.credit) header.credit = options.credit
    if (options.headers) header.headers = options.headers
    if (options.contentType) header.content_type = options.contentType
    if (options.delayMs && delayMs > 0) header.delay_ms = delayMs
    task.envelope = Buffer.alloc(8)
    task.envelope.writeBigUInt64BE(++this.#number)
    task.isSent = true
    this.#unsent.delete(task)
    this.#open.set(task.envelope.toString("latin1"), task)
    this.#link.send([task.envelope, write("TASK", "REQUEST", header), task.body])
  }

  #cancel(task) {
    task.isCancelled = true
    if (this.#unsent.has(task)) {
      const outcome = task.mayHaveRun ? "UNKNOWN" : "REJECTED"
      this.#end(task, new TaskError(outcome, "cancelled: before it was sent"))
    } else if (task.isSent) this.#link.send([EMPTY, CANCEL, task.envelope])
  }

  #want(task, last) {
    task.wanted = last
    if (task.isSent) this.#link.send([EMPTY, CREDIT, Buffer.concat([four(last), task.envelope])])
  }

  // -- the connection -----------------------------------------------------------------------------------------------

  #up() {
    this.#link.settle()
    for (const task of this.#unsent) if (!task.rests) this.#send(task)
  }

  #lost(outcome = "UNKNOWN", reason = "broker_lost: the connection was lost before the answer came") {
    for (const task of [...this.#open.values()]) this.#settle(task, outcome, reason)
  }

  #overdue(task) {
    if (!task.isSent) {
      const outcome = task.mayHaveRun ? "UNKNOWN" : "REJECTED"
      this.#end(task, new TaskError(outcome, "expired: there was no broker within the time-out"))
    } else task.timer = setTimeout(() => this.#giveUp(task), GRACE_MS)
  }

  #giveUp(task) {
    this.#end(task, new TaskError("UNKNOWN", "broker_lost: no answer within the time-out"))
  }

  // -- what comes ---------------------------------------------------------------------------------------------------

  #heard([envelope, header, body]) {
    const task = this.#open.get(envelope.toString("latin1"))
    if (task) this.#answered(task, read(header), body)
    else if (header.equals(PART_BYTES)) this.#part(envelope, body)
    else if (isDisconnect(read(header))) this.#lost("REJECTED", "broker_lost: the broker stopped before it took the task")
  }

  #answered(task, fields, body) {
    if (fields.request === "ERROR") {
      this.#settle(task, "REJECTED", String(fields.reason))
    } else if (fields.request !== "TASK" || !OUTCOMES.has(fields.outcome)) {
      this.#settle(task, "UNKNOWN", "bad_header: the answer cannot be read")
    } else if (fields.outcome !== "OK") {
      this.#settle(task, fields.outcome, String(fields.reason ?? ""), body)
    } else if (task.part && (fields.parts ?? 0) !== task.came) {
      const sentence = `incomplete: ${task.came} parts came of ${fields.parts ?? 0}`
      this.#end(task, new TaskError("UNKNOWN", sentence))
    } else {
      if (task.part && fields.parts === undefined) task.part(body)
      this.#end(task, undefined, body)
    }
  }

  #part(place, body) {
    if (place.length < 4) return
    const task = this.#open.get(place.subarray(0, -4).toString("latin1"))
    const number = place.readUInt32BE(place.length - 4)
    if (!task?.part || number === 0) return
    if (number === task.came + 1 && number <= task.wanted) {
      task.came = number
      task.part(body)
    } else {
      this.#link.send([EMPTY, CANCEL, task.envelope])
      this.#end(task, new TaskError("UNKNOWN", `incomplete: part ${number} came after ${task.came}`))
    }
  }

  /** It ended so, unless it may be tried again. */
  #settle(task, outcome, reason, body) {
    const repeats = outcome === "UNKNOWN" && task.options.idempotent && !task.isCancelled && !task.came
    if (!repeats || performance.now() >= task.deadline) {
      // That the last attempt did not run says nothing about the one before.
      this.#end(task, new TaskError(outcome === "REJECTED" && task.mayHaveRun ? "UNKNOWN" : outcome, reason, body))
      return
    }
    this.#open.delete(task.envelope.toString("latin1"))
    task.isSent = false
    task.mayHaveRun = task.rests = true
    this.#unsent.add(task)
    const pause = Math.min(PAUSE_MS[0] * 2 ** task.tries++, PAUSE_MS[1])
    setTimeout(() => this.#again(task), pause * (0.5 + Math.random() / 2)).unref?.()
  }

  #again(task) {
    task.rests = false
    if (this.#unsent.has(task) && this.#link.isUp) this.#send(task)
  }

  #end(task, error, body) {
    clearTimeout(task.timer)
    this.#unsent.delete(task)
    if (task.envelope) this.#open.delete(task.envelope.toString("latin1"))
    task.isSent = false
    if (error) task.reject(error)
    else task.resolve(body)
  }
}

const PART_BYTES = Buffer.from(PART)

function isDisconnect(fields) {
  return fields.request === "DISCONNECT" && fields.type === "REQUEST"
}
