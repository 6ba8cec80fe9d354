/** The client as a command of the conformance kit: famulus conform client -- node clients/node/conform/client.js */

import { Client } from "../client.js"
import { bytes, tell, told } from "./lines.js"

const aborts = new Map()
let client

tell({ offers: ["cancel", "delay", "idempotent", "ids", "several", "streams"] })
for await (const line of told()) {
  if (line.do === "connect") client = new Client(line.address)
  else if (line.do === "ask") ask(line)
  else if (line.do === "cancel") aborts.get(line.id).abort()
  else if (line.do === "stop") break
}
client.close()
process.exit(0)

async function ask({ id, service, body, timeout_ms: timeoutMs, delay_ms: delayMs, message_id: messageId, ...more }) {
  const abort = new AbortController()
  aborts.set(id, abort)
  const options = { timeoutMs, delayMs, messageId, ...more, signal: abort.signal }
  try {
    if (more.credit) {
      for await (const part of client.stream(service, bytes(body), options)) tell({ id, part: part.toString("hex") })
      tell({ id, outcome: "OK", body: "" })
    } else {
      const answer = await client.request(service, bytes(body), options)
      tell({ id, outcome: "OK", body: answer.toString("hex") })
    }
  } catch (error) {
    tell({ id, outcome: error.outcome, reason: error.reason, body: error.body.toString("hex") })
  }
}
