/* No answer is lost between two streams.

   Gradio's server ends a page's stream of answers once nothing is under way, and its client opens another with the
   next question. A question that is sent before the client has heard of the end waits on the ended stream for ever, and
   with it the field that asked. So while one waits the end is not told: the server's next stream goes on in this one. */
const ask = window.fetch;
const waiting = new Set(); // questions: their request, then the id that the server gave them
const answered = new Set(); // ids whose last word came before the reply that gives the id

const sendQuestion = async (input, init) => {
  const request = {};
  waiting.add(request);
  try {
    const response = await ask(input, init);
    const { event_id: id } = await response
      .clone()
      .json()
      .catch(() => ({})); // a proxy's refusal is no JSON
    if (id && !answered.delete(id)) waiting.add(id);
    return response;
  } finally {
    waiting.delete(request);
  }
};

/** The messages of a stream and, as long as a question waits when it ends, of the next. */
async function* readMessages(/** @type {Response} */ response, askAgain) {
  const encoder = new TextEncoder();
  while (response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    response = null;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const messages = (rest + part.value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) {
        const told = JSON.parse(message.slice("data:".length));
        if (told.msg === "process_completed" && !waiting.delete(told.event_id)) answered.add(told.event_id);
        if (told.msg === "close_stream" && waiting.size) response = await askAgain();
        else yield encoder.encode(`${message}\n\n`);
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
      const { value, done } = await messages.next();
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
