/** One connection to a broker: knows whether it is up, and makes a new one when it is lost. Knows no messages. */

import { Dealer } from "zeromq"

/** The pause before a new socket: doubling, between these. */
const PAUSE_MS = [100, 8000]
/** What had come before the connection was lost is read within this time: its loss is told by another way. */
const READ_MS = 20

/**
 * @typedef {object} Owner
 * @property {(frames: Buffer[]) => void} heard
 * @property {() => void} up
 * @property {() => void} lost after everything that had come was heard
 */

export class Link {
  isUp = false
  #tries = 0
  #queue = []
  #isSending = false
  #isClosed = false
  #timer

  /**
   * @param {string} address
   * @param {Owner} owner
   * @param {object} [options] more options of the socket, such as curveServerKey
   */
  constructor(address, owner, options = {}) {
    this.address = address
    this.owner = owner
    this.options = options
    this.#open()
  }

  #open() {
    const socket = new Dealer({
      linger: 0,
      sendHighWaterMark: 0,
      receiveHighWaterMark: 0,
      // A broker that is frozen or cut off is noticed by these; it answers them whatever else it has to do.
      heartbeatInterval: 500,
      heartbeatTimeout: 1500,
      reconnectInterval: 100,
      reconnectMaxInterval: 2000,
      ...this.options,
    })
    this.socket = socket
    socket.events.on("handshake", () => {
      if (this.socket !== socket) return
      this.isUp = true
      this.owner.up()
    })
    // While it has not been up, libzmq tries again by itself, with pauses.
    socket.events.on("disconnect", () => {
      if (this.socket === socket && this.isUp) this.#lose(socket)
    })
    socket.connect(this.address)
    this.#read(socket)
  }

  async #read(socket) {
    try {
      for await (const frames of socket) {
        if (this.socket !== socket) return
        if (frames.length === 3) this.owner.heard(frames)
      }
    } catch (error) {
      if (!socket.closed) throw error
    }
  }

  /** Nothing more is sent over it. What it had queued must not leave over its next connection: so it is closed. */
  #lose(socket) {
    this.isUp = false
    setTimeout(() => {
      if (this.socket === socket) this.renew()
    }, READ_MS)
  }

  /** Go on over a new socket, after a pause. */
  renew() {
    if (this.#isClosed) return
    this.#shut()
    this.owner.lost()
    if (this.#isClosed) return
    const pause = Math.min(PAUSE_MS[0] * 2 ** this.#tries++, PAUSE_MS[1])
    this.#timer = setTimeout(() => this.#open(), pause * (0.5 + Math.random() / 2))
  }

  /** The broker took us: the next pause is a short one again. */
  settle() {
    this.#tries = 0
  }

  #shut() {
    this.isUp = false
    this.#queue = []
    this.socket?.close()
    this.socket = undefined
  }

  close() {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#shut()
  }

  /** @param {(Buffer | string)[]} frames */
  send(frames) {
    this.#queue.push(frames)
    if (!this.#isSending) this.#sendAll()
  }

  async #sendAll() {
    this.#isSending = true
    try {
      while (this.#queue.length) {
        const queue = this.#queue
        this.#queue = []
        for (const frames of queue) await this.socket?.send(frames)
      }
    } catch (error) {
      if (this.isUp) throw error // otherwise it was closed meanwhile
    } finally {
      this.#isSending = false
    }
  }
}

/** The object in a header; an empty one if there is none. @param {Buffer} header */
export function read(header) {
  try {
    const fields = JSON.parse(header.toString())
    return fields !== null && typeof fields === "object" && !Array.isArray(fields) ? fields : {}
  } catch {
    return {}
  }
}

/** @param {string} request @param {string} type @param {object} [fields] */
export function write(request, type, fields) {
  return JSON.stringify({ request, type, ...fields })
}

export const PART = write("PART", "RESPONSE")
export const CREDIT = write("CREDIT", "REQUEST")
export const CANCEL = write("CANCEL", "REQUEST")
export const EMPTY = Buffer.alloc(0)

/** A number of four bytes. @param {number} number */
export function four(number) {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(number)
  return bytes
}
