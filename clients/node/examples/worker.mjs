import { Worker } from "famulus-node"

const worker = new Worker(process.argv[2] ?? "tcp://127.0.0.1:7101", { slots: 8 })
worker.service("reverse", (body) => body.reverse())
worker.serves("add", ({ a, b }) => a + b)
worker.service("count", async function* (body) {
  for (let number = 0; number < Number(body); number++) yield String(number)
})
process.once("SIGTERM", () => worker.stop())
await worker.run()
