package txn

// Ref names a key and what a transaction is going to do with it.
type Ref struct {
	table *Table
	key   []byte
	mode  mode
}

// mode is how far an access goes; each includes what is before it.
type mode uint8

const (
	modeRead   mode = iota // read, validated at commit
	modeUpdate             // locked while read, if it is there
	modeInsert             // its bucket is locked, so that it can be inserted
)

// ForRead refers to a key that will only be read.
func ForRead(t *Table, key []byte) Ref { return Ref{t, key, modeRead} }

// ForUpdate refers to a key that will be written or deleted: it is locked and
// read in one go.
func ForUpdate(t *Table, key []byte) Ref { return Ref{t, key, modeUpdate} }

// ForInsert refers to a key that will be inserted: its bucket is locked and read
// in one go.
func ForInsert(t *Table, key []byte) Ref { return Ref{t, key, modeInsert} }
