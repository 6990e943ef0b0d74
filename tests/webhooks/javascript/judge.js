// Reads deliveries from standard input and says of each what the public library makes of it.
const { Webhook } = require("standardwebhooks");

const verdict = ({ secret, headers, body }) => {
  try {
    new Webhook(secret).verify(Buffer.from(body, "base64"), headers, { jsonParse: false });
    return "accepted";
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};

const signature = ({ secret, headers, body }) =>
  new Webhook(secret).sign(
    headers["webhook-id"],
    new Date(Number(headers["webhook-timestamp"]) * 1000),
    Buffer.from(body, "base64"),
  );

const deliveries = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(deliveries.map((one) => ({ verdict: verdict(one), signature: signature(one) }))));
