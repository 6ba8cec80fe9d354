/** The worker as a command of the conformance kit: famulus conform worker -- node clients/node/conform/worker.js */

import { once, EventEmitter } from "node:events"
import { Worker } from "../worker.js"
import { bytes, tell, told } from "./lines.js"

const calls = new EventEmitter().setMaxListeners(0)
let number = 0
let worker

tell({ offers: ["drain", "several", "streams", "token"] })
for await (const line of told()) {
  if (line.do === "serve") serve(line)
  else if (line.do === "stop") worker.stop()
  else calls.emit(String(line.task), line)
}
process.exit(0)

function serve({ address, identity, slots, services, streams }) {
  worker = new Worker(address, { identity, slots })
  for (const name of services) worker.service(name, (body) => answer(name, body))
  for (const name of streams) worker.service(name, (body) => parts(name, body))
  worker.run().then(() => process.exit(0))
}

async function answer(service, body) {
  const task = ++number
  const wish = once(calls, String(task))
  tell({ task, service, body: body.toString("hex") })
  const [line] = await wish
  if (line.do === "fail") throw new Error(line.reason)
  return bytes(line.body)
}

async function* parts(service, body) {
  const task = ++number
  const wishes = []
  let wake
  calls.on(String(task), (line) => (wishes.push(line), wake?.()))
  tell({ task, service, body: body.toString("hex") })
  while (true) {
    while (!wishes.length) await new Promise((resolve) => (wake = resolve))
    const line = wishes.shift()
    if (line.do !== "part") return
    yield bytes(line.body)
  }
}
