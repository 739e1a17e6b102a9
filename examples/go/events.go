// An order and its event in one transaction, with database/sql: both are stored, or neither.
//
//	DATABASE_URL=postgres://user@host/database go run . [--fail]
//
// (Add ?sslmode=disable to the URL if the server has no TLS.)
// First run `deliverd migrate`, and create the shop's own table:
//
//	create table shop_orders (id serial primary key, total int not null);
//
// With --fail the program fails after both writes, and the rollback undoes them.
package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	_ "github.com/lib/pq"
)

// addEvent writes an event in the transaction and returns its id.
func addEvent(tx *sql.Tx, aggregateID, eventType string, payload any) (id int64, err error) {
	text, err := json.Marshal(payload)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow("select deliverd.add_event($1, $2, $3, $4)",
		aggregateID, eventType, string(text), `{"tenant": "acme"}`).Scan(&id)
	return id, err
}

func createOrder(db *sql.DB, total int, fail bool) (orderID, eventID int64, err error) {
	tx, err := db.Begin()
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback() // after a commit it does nothing
	err = tx.QueryRow("insert into shop_orders (total) values ($1) returning id", total).Scan(&orderID)
	if err != nil {
		return 0, 0, err
	}
	eventID, err = addEvent(tx, fmt.Sprintf("order-%d", orderID), "OrderCreated",
		map[string]any{"order_id": orderID, "total": total})
	if err != nil {
		return 0, 0, err
	}
	if fail {
		return 0, 0, errors.New("the card was refused")
	}
	return orderID, eventID, tx.Commit()
}

func main() {
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	orderID, eventID, err := createOrder(db, 42, len(os.Args) > 1 && os.Args[1] == "--fail")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("order %d, event %d\n", orderID, eventID)
}
