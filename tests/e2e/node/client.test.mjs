import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.GEZEL_URL + "/v1", apiKey: process.env.GEZEL_KEY, maxRetries: 0 });
const model = process.env.GEZEL_MODEL;
const ask = (content, fields = {}) =>
  client.chat.completions.create({ model, max_tokens: 24, temperature: 0, messages: [{ role: "user", content }], ...fields });

test("a whole reply has text and usage", async () => {
  const reply = await ask("What is the capital of France?");
  assert.ok(reply.choices[0].message.content.trim());
  assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
});

test("a stream carries the same text", async () => {
  await ask("Name three colours."); // from here on every run finds the same cells
  const whole = (await ask("Name three colours.")).choices[0].message.content;
  let text = "";
  for await (const chunk of await ask("Name three colours.", { stream: true })) text += chunk.choices[0]?.delta?.content ?? "";
  assert.equal(text, whole);
});

test("an aborted stream ends without an error event", async () => {
  const stream = await ask("Write a long story about the sea.", { stream: true, max_tokens: 2000 });
  let chunks = 0;
  for await (const chunk of stream) {
    assert.ok(chunk);
    if (++chunks === 3) stream.controller.abort();
  }
  assert.ok(chunks >= 3);
});

test("errors have their types", async () => {
  await assert.rejects(ask("Hi", { model: "llama-cpp:nothing" }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, "model_not_found");
    return true;
  });
  await assert.rejects(ask("Hi", { temperature: 9 }), OpenAI.BadRequestError);
  const stranger = new OpenAI({ baseURL: process.env.GEZEL_URL + "/v1", apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

test("models are listed", async () => {
  const ids = [];
  for await (const entry of client.models.list()) ids.push(entry.id);
  assert.ok(ids.includes(model));
});
