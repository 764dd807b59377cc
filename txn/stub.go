package txn

import (
	"context"

	"fjord/verbs"
)

type DB struct{}
type Table struct{}
type Tx struct{}
type Schema struct {
	Name               string
	KeySize, ValueSize int
	Capacity           uint64
}
type Ref struct{}
type CheckReport struct {
	Checks  map[string]bool
	Details []string
}

func Open(ctx context.Context, o Options) (*DB, error)                    { panic("stub") }
func (*DB) Update(ctx context.Context, f func(*Tx) error) error           { panic("stub") }
func (*DB) View(ctx context.Context, f func(*Tx) error) error             { panic("stub") }
func (*DB) Begin(ctx context.Context) (*Tx, error)                        { panic("stub") }
func (*DB) CreateTable(ctx context.Context, s Schema) (*Table, error)     { panic("stub") }
func (*DB) Table(ctx context.Context, name string) (*Table, error)        { panic("stub") }
func (*DB) Tables(ctx context.Context) ([]*Table, error)                  { panic("stub") }
func (*DB) DropTable(ctx context.Context, name string) error              { panic("stub") }
func (*DB) Resolve(ctx context.Context, id ID) (Outcome, error)           { panic("stub") }
func (*DB) Stats() Stats                                                  { panic("stub") }
func (*DB) Check(ctx context.Context) (*CheckReport, error)               { panic("stub") }
func (*DB) Runtime() verbs.Runtime                                        { panic("stub") }
func (*DB) Close() error                                                  { panic("stub") }
func (*Table) Name() string                                               { panic("stub") }
func (*Table) Schema() Schema                                             { panic("stub") }
func ForRead(t *Table, key []byte) Ref                                    { panic("stub") }
func ForUpdate(t *Table, key []byte) Ref                                  { panic("stub") }
func ForInsert(t *Table, key []byte) Ref                                  { panic("stub") }
func (*Tx) Fetch(refs ...Ref) error                                       { panic("stub") }
func (*Tx) Get(t *Table, key []byte) ([]byte, error)                      { panic("stub") }
func (*Tx) GetForUpdate(t *Table, key []byte) ([]byte, error)             { panic("stub") }
func (*Tx) Put(t *Table, key, value []byte) error                         { panic("stub") }
func (*Tx) Insert(t *Table, key, value []byte) error                      { panic("stub") }
func (*Tx) Delete(t *Table, key []byte) error                             { panic("stub") }
func (*Tx) ID() ID                                                        { panic("stub") }
func (*Tx) SetLabel(label string)                                         { panic("stub") }
func (*Tx) Attempt() int                                                  { panic("stub") } // 1 on the first run
func (*Tx) LastConflict() *ConflictError                                  { panic("stub") } // of the previous attempt; nil on the first
func (*Tx) Commit(ctx context.Context) error                              { panic("stub") }
func (*Tx) Abort() error                                                  { panic("stub") }
