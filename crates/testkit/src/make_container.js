// Makes a container in an emulator of Azure: node -e … -- PORT ACCOUNT KEY NAME

const { createHmac } = require("crypto");
const { request } = require("http");

const [port, account, key, name] = process.argv.slice(-4);
const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2021-08-06" };
const lines = Object.entries(headers).map(([field, value]) => `${field}:${value}`);
// Twelve lines for fields that this request does not have; the account is in the path as well.
const text = ["PUT", ...Array(11).fill(""), ...lines, `/${account}/${account}/${name}`, "restype:container"];
const hash = createHmac("sha256", Buffer.from(key, "base64")).update(text.join("\n")).digest("base64");
headers.authorization = `SharedKey ${account}:${hash}`;
const path = `/${account}/${name}?restype=container`;
request({ port, host: "127.0.0.1", method: "PUT", path, headers }, (answer) => {
    if (answer.statusCode !== 201) {
        console.error(answer.statusCode, answer.statusMessage);
        process.exitCode = 1;
    }
    answer.resume();
}).end();
