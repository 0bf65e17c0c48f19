/* What Gradio's client would lose of the server's answers.

   The end of a stream. The server ends a page's stream once nothing is under way, and the client opens another with the
   next question. One that is sent before the client has heard of the end waits on the ended stream for ever, and with it
   the field that asked. So while one waits the end is not told: the server's next stream goes on in this one.

   A part of an answer. Of an answer in several messages the later ones say what changes, and the client changes the
   values of the earlier ones in place, perhaps before the page has shown them. So values come whole here, each anew. */
const ask = window.fetch;
const waiting = new Set(); // questions: their request, then the id that the server gave them
const answered = new Set(); // ids whose last word came before the reply that gives the id
const lastValues = new Map(); // id → the values of its last message
const PAUSE = 50; // ms before the next stream: a server that ends each at once isn't asked without end

const forgetAll = () => {
  for (const kept of [waiting, answered, lastValues]) kept.clear();
};

const sendQuestion = async (input, init) => {
  const request = {};
  waiting.add(request);
  try {
    const response = await ask(input, init);
    const reply = response.clone().json();
    const { event_id: id } = await reply.catch(() => ({})); // a proxy's refusal is no JSON
    if (id && !answered.delete(id)) waiting.add(id);
    return response;
  } finally {
    waiting.delete(request);
  }
};

/** The value after one change, as Gradio's server writes it; nothing is changed in place. */
const changed = (value, change) => {
  const [action, [key, ...rest], part] = change;
  if (key === undefined) return action === "append" ? value + part : part;
  const copy = Array.isArray(value) ? [...value] : { ...value };
  if (rest.length) copy[key] = changed(value[key], [action, rest, part]);
  else if (action === "append") copy[key] += part;
  else if (Array.isArray(copy))
    copy.splice(Number(key), Number(action !== "add"), ...(action === "delete" ? [] : [part]));
  else if (action === "delete") delete copy[key];
  else copy[key] = part;
  return copy;
};

/** Put whole values in place of what changes in them. */
const makeWhole = message => {
  const { event_id: id, output } = message;
  const before = lastValues.get(id);
  const values = before ? output.data.map((changes, at) => changes.reduce(changed, before[at])) : output.data;
  if (before) output.data = values.map((value, at) => (output.data[at].length ? [["replace", [], value]] : []));
  lastValues.set(id, values);
};

const encoder = new TextEncoder();
const encode = message => encoder.encode(`data: ${JSON.stringify(message)}\n\n`);
const BROKEN = {
  msg: "unexpected_error",
  message: "The connection to the server is broken. Ask again.",
  success: false,
};

/** Take note of a message, and give it in the form in which nothing is lost. */
const readMessage = text => {
  if (!text.startsWith("data:")) return {};
  const message = JSON.parse(text.slice("data:".length));
  const { msg, event_id: id } = message;
  if (msg === "process_generating" && message.output?.data) makeWhole(message);
  if (msg === "unexpected_error") forgetAll(); // the server stops
  if (msg === "process_completed") {
    lastValues.delete(id);
    if (!waiting.delete(id)) answered.add(id);
  }
  return message;
};

/** The messages of a stream and, as long as a question waits when it ends, of the next. */
async function* readMessages(/** @type {Response} */ response, askAgain) {
  while (response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    response = null;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const texts = (rest + part.value).split("\n\n");
      rest = texts.pop();
      for (const message of texts.map(readMessage)) {
        if (message.msg === "close_stream" && waiting.size) {
          await new Promise(resolve => setTimeout(resolve, PAUSE));
          response = await askAgain().catch(() => null);
          if (response?.ok) continue;
          response = null;
          forgetAll();
          yield encode(BROKEN);
        }
        if (message.msg) yield encode(message);
      }
    }
  }
}

const openStream = async request => {
  const askAgain = () => ask(request.clone());
  const response = await askAgain();
  if (!response.ok) return response;
  const messages = readMessages(response, askAgain);
  const body = new ReadableStream({
    async pull(out) {
      const { value, done } = await messages.next().catch(error => {
        forgetAll(); // the stream was cut
        throw error;
      });
      if (done) out.close();
      else out.enqueue(value);
    },
  });
  return new Response(body, response);
};

window.fetch = (input, init) => {
  const url = input instanceof Request ? input.url : String(input);
  if (url.includes("/queue/join")) return sendQuestion(input, init);
  if (url.includes("/queue/data")) return openStream(new Request(input, init));
  return ask(input, init);
};
