import { Client } from "famulus-node"

const client = new Client(process.argv[2] ?? "tcp://127.0.0.1:7100")
console.log((await client.request("reverse", "hello", { timeoutMs: 2000 })).toString())
console.log(await client.call("add", { a: 1, b: 2 }))
for await (const part of client.stream("count", "3")) console.log(part.toString())
client.close()
