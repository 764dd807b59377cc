package txn_test

import (
	"context"
	"fmt"

	"fjord/txn"
)

// readme is the program of the README, word for word; a test of internal/house
// compares them.
func readme(ctx context.Context) error {
	db, err := txn.Open(ctx, txn.Options{}) // three memory nodes in this process, three copies of everything
	if err != nil {
		return err
	}
	defer db.Close()
	accounts, err := db.CreateTable(ctx, txn.Schema{Name: "accounts", KeySize: 8, ValueSize: 16, Capacity: 1000})
	if err != nil {
		return err
	}
	return db.Update(ctx, func(tx *txn.Tx) error { // all or nothing; run again after a conflict
		if err := tx.Put(accounts, []byte("alice"), []byte("100")); err != nil {
			return err
		}
		return tx.Put(accounts, []byte("bob"), []byte("20"))
	})
}

// Example_readme opens a database and writes two records in one transaction.
func Example_readme() {
	if err := readme(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("committed")
	// Output: committed
}
