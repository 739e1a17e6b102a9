// An order and its event in one transaction, with pg (npm ci installs it): both are stored, or neither.
//
//     DATABASE_URL=postgres://user@host/database node events.mjs [--fail]
//
// First run `deliverd migrate`, and create the shop's own table:
//     create table shop_orders (id serial primary key, total int not null);
// With --fail the program fails after both writes, and the rollback undoes them.

import process from "node:process";
import pg from "pg";

/** Writes an event in the client's open transaction; returns its id. */
async function addEvent(client, aggregateId, eventType, payload, metadata) {
  const { rows } = await client.query("select deliverd.add_event($1, $2, $3, $4) as id", [
    aggregateId, eventType, JSON.stringify(payload), JSON.stringify(metadata),
  ]);
  return rows[0].id;
}

async function createOrder(client, total, fail) {
  await client.query("begin");
  try {
    const { rows: [order] } = await client.query("insert into shop_orders (total) values ($1) returning id", [total]);
    const eventId = await addEvent(client, `order-${order.id}`, "OrderCreated",
      { order_id: order.id, total }, { tenant: "acme" });
    if (fail) throw new Error("the card was refused");
    await client.query("commit");
    return { orderId: order.id, eventId };
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
try {
  const { orderId, eventId } = await createOrder(client, 42, process.argv.includes("--fail"));
  console.log(`order ${orderId}, event ${eventId}`);
} finally {
  await client.end();
}
