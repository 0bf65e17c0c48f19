/* A network on which the word that a stream of answers ends comes two seconds late. */
{
  const ask = window.fetch;
  const delay = () => {
    let rest = "";
    return new TransformStream({
      async transform(chunk, out) {
        const messages = (rest + chunk).split("\n\n");
        rest = messages.pop();
        for (const each of messages) {
          if (each.includes('"close_stream"')) await new Promise(resolve => setTimeout(resolve, 2000));
          out.enqueue(`${each}\n\n`);
        }
      },
    });
  };
  window.fetch = async (input, init) => {
    const answer = await ask(input, init);
    if (!String(input.url ?? input).includes("/queue/data")) return answer;
    const body = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(delay());
    return new Response(body.pipeThrough(new TextEncoderStream()), answer);
  };
}
