export { Client, TaskError } from "./client.js"
export { Worker } from "./worker.js"
