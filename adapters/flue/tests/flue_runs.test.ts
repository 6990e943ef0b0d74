import { fauxAssistantMessage, fauxProvider } from "@earendil-works/pi-ai/providers/faux";
import { init, useModel } from "@flue/runtime";
import { type Flue, start } from "@flue/runtime/node";
import { afterEach, expect, it } from "vitest";

import { losingAnswers } from "./losing.ts";
import { Tenants } from "./service.ts";

const tenants = new Tenants();
let flue: Flue | undefined;
afterEach(async () => {
  await flue?.stop();
  tenants.close();
});

function Echo(): string {
  useModel("faux/faux-1");
  return "Say it again.";
}

it.each([
  ["answers arrive", () => fetch],
  ["every first answer is lost", () => losingAnswers()],
])("a Flue application goes on after a restart from what is here, where %s", async (_label, makeFetch) => {
  const tenant = await tenants.create();
  const model = fauxProvider({ provider: "faux", models: [{ id: "faux-1" }] });
  const heard: string[] = [];
  const run = async (text: string, reply: string) => {
    model.setResponses([
      (context) => {
        heard.push(JSON.stringify(context.messages));
        return fauxAssistantMessage(reply);
      },
    ]);
    flue = await start({ agents: [Echo], db: tenant.adapter({ fetch: makeFetch() }), providers: [model.provider] });
    const agent = init(Echo, { id: "one" });
    const answer = await agent.read(await agent.dispatch(text));
    await flue.stop();
    flue = undefined;
    return answer.text;
  };
  expect(await run("Say hello.", "Hello.")).toBe("Hello.");
  expect(await run("And again.", "Hello again.")).toBe("Hello again.");
  expect(heard[1]).toContain("Say hello.");
  expect(heard[1]).toContain("Hello.");
});
