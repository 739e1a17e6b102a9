# An order and its event in one transaction, with ActiveRecord (and pg): both are stored, or neither.
#
#     DATABASE_URL=postgres://user@host/database ruby events.rb [--fail]
#
# First run `deliverd migrate`, and create the shop's own table:
#     create table shop_orders (id serial primary key, total int not null);
# With --fail the program fails after both writes, and the rollback undoes them.

require "active_record"
require "json"

class Order < ActiveRecord::Base
  self.table_name = "shop_orders"
end

Event = Struct.new(:aggregate_id, :event_type, :payload, :metadata)

class Outbox
  # Writes an event in the open transaction; returns its id.
  def add(event)
    values = [event.aggregate_id, event.event_type, event.payload.to_json, (event.metadata || {}).to_json]
    ActiveRecord::Base.connection.exec_query(
      "select deliverd.add_event($1, $2, $3, $4)", "add_event", values
    ).rows.first.first
  end
end

def create_order(outbox, total, fail)
  ActiveRecord::Base.transaction do # commits at its end, rolls back on an exception
    order = Order.create!(total: total)
    event = Event.new("order-#{order.id}", "OrderCreated", { order_id: order.id, total: total }, { tenant: "acme" })
    event_id = outbox.add(event)
    raise "the card was refused" if fail

    [order.id, event_id]
  end
end

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))
order_id, event_id = create_order(Outbox.new, 42, ARGV.include?("--fail"))
puts "order #{order_id}, event #{event_id}"
