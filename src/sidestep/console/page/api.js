// What the server answers; what it refuses is an Error with a sentence.
async function ask(method, path, body) {
  let reply;
  try {
    reply = await fetch(path, {
      method, headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error("The console's server does not answer. Is `sidestep serve` still running?");
  }
  const data = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(data.error ?? `The server answered ${reply.status} and did not say why.`);
  return data;
}

const named = (name) => encodeURIComponent(name);
export const api = {
  workspace: () => ask("GET", "/api/workspace"),
  table: (name) => ask("GET", `/api/tables/${named(name)}`),
  blocks: (name, columns, offset, limit) => ask("GET",
    `/api/tables/${named(name)}/blocks?offset=${offset}&limit=${limit}${columns.map((one) => `&column=${named(one)}`).join("")}`),
  start: (kind, request) => ask("POST", `/api/jobs/${kind}`, request),
  jobs: () => ask("GET", "/api/jobs"),
  job: (id) => ask("GET", `/api/jobs/${id}`),
  stop: (id) => ask("DELETE", `/api/jobs/${id}`),
  select: (id, request) => ask("POST", `/api/jobs/${id}/select`, request),
  explain: (request) => ask("POST", "/api/explain", request),
  run: (request) => ask("POST", "/api/run", request),
  block: (id, scan, block) => ask("GET", `/api/explanations/${id}/scans/${scan}/blocks/${block}`),
};
