#!/usr/bin/env python3
"""An order and its event in one transaction, with a SQLAlchemy 2 session: both are stored, or neither.

    DATABASE_URL=postgres://user@host/database events_sqlalchemy.py [--fail]

First run `deliverd migrate`, and create the shop's own table:
    create table shop_orders (id serial primary key, total int not null);
With --fail the program fails after both writes, and the rollback undoes them.
"""

import os
import sys

from sqlalchemy import create_engine, func, literal, make_url, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[int]


def add_event(session, aggregate_id, event_type, payload, metadata):
    """Writes an event in the session's transaction; returns its id."""
    return session.scalar(select(func.deliverd.add_event(
        aggregate_id, event_type, literal(payload, JSONB), literal(metadata, JSONB))))


def create_order(engine, total, fail):
    with Session(engine) as session, session.begin():  # commits at its end, rolls back on an exception
        order = Order(total=total)
        session.add(order)
        session.flush()  # the order gets its id
        event_id = add_event(session, f"order-{order.id}", "OrderCreated",
                             {"order_id": order.id, "total": order.total}, {"tenant": "acme"})
        if fail:
            raise RuntimeError("the card was refused")
        return order.id, event_id


if __name__ == "__main__":
    engine = create_engine(make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+psycopg"))
    order_id, event_id = create_order(engine, 42, fail="--fail" in sys.argv[1:])
    print(f"order {order_id}, event {event_id}")
