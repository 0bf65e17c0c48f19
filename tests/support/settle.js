// Counts what a Gradio page has asked of its server and not yet been answered: window.isSettled().
(() => {
  const open = new Set();
  const done = new Set();
  const send = window.fetch;
  let quietFrames = 0;

  const readEvents = async stream => {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const lines = (text + part.value).split("\n");
      text = lines.pop();
      for (const line of lines) {
        const told = line.startsWith("data:") ? JSON.parse(line.slice(5)) : {};
        if (told.msg !== "process_completed") continue;
        open.delete(told.event_id);
        done.add(told.event_id); // which may come before the answer that gives the event its id
        quietFrames = 0; // the page draws what came
      }
    }
  };

  window.fetch = async (resource, options) => {
    const url = String(resource.url ?? resource);
    if (url.includes("/queue/data")) {
      const response = await send(resource, options);
      const [forPage, forCount] = response.body.tee();
      readEvents(forCount).catch(() => open.clear()); // the stream was cut
      return new Response(forPage, response);
    }
    if (!/\/queue\/join|\/run\/predict/.test(url)) return send(resource, options);
    const request = {};
    open.add(request);
    try {
      const response = await send(resource, options);
      const { event_id: id } = await response.clone().json();
      if (id && !done.has(id)) open.add(id);
      return response;
    } finally {
      open.delete(request);
    }
  };

  window.isSettled = () => {
    quietFrames = open.size ? 0 : quietFrames + 1; // an answer may lead to the next question a frame later
    return quietFrames > 10;
  };
})();
