#!/usr/bin/env python3
"""An order and its event in one transaction, with psycopg 3: both are stored, or neither.

    DATABASE_URL=postgres://user@host/database events_psycopg.py [--fail]

First run `deliverd migrate`, and create the shop's own table:
    create table shop_orders (id serial primary key, total int not null);
With --fail the program fails after both writes, and the rollback undoes them.
"""

import os
import sys

import psycopg
from psycopg.types.json import Jsonb


def add_event(connection, aggregate_id, event_type, payload, metadata):
    """Writes an event in the connection's open transaction; returns its id."""
    return connection.execute("select deliverd.add_event(%s, %s, %s, %s)",
                              (aggregate_id, event_type, Jsonb(payload), Jsonb(metadata))).fetchone()[0]


def create_order(connection, total, fail):
    with connection.transaction():  # commits at its end, rolls back on an exception
        order_id = connection.execute("insert into shop_orders (total) values (%s) returning id", (total,)).fetchone()[0]
        event_id = add_event(connection, f"order-{order_id}", "OrderCreated",
                             {"order_id": order_id, "total": total}, {"tenant": "acme"})
        if fail:
            raise RuntimeError("the card was refused")
    return order_id, event_id


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        order_id, event_id = create_order(connection, 42, fail="--fail" in sys.argv[1:])
    print(f"order {order_id}, event {event_id}")
