package main

import "fjord/txn"

// amalgamate moves all money of A, savings and checking, to the checking of B.
func (c *client) amalgamate(tx *txn.Tx) error {
	savings, checking := c.savings, c.checking
	if err := c.fetch(tx, txn.ForUpdate(savings, c.keyA), txn.ForUpdate(checking, c.keyA), txn.ForUpdate(checking, c.keyB)); err != nil {
		return err
	}
	s, err := c.get(tx, savings, c.keyA)
	if err != nil {
		return err
	}
	a, err := c.get(tx, checking, c.keyA)
	if err != nil {
		return err
	}
	b, err := c.get(tx, checking, c.keyB)
	if err != nil {
		return err
	}
	if err := c.set(tx, 0, savings, c.keyA, s, 0); err != nil {
		return err
	}
	if err := c.set(tx, 1, checking, c.keyA, a, 0); err != nil {
		return err
	}
	return c.set(tx, 2, checking, c.keyB, b, b.cents+s.cents+a.cents)
}

// balance reads both balances of A.
func (c *client) balance(tx *txn.Tx) error {
	savings, checking := c.savings, c.checking
	if err := c.fetch(tx, txn.ForRead(savings, c.keyA), txn.ForRead(checking, c.keyA)); err != nil {
		return err
	}
	if _, err := c.get(tx, savings, c.keyA); err != nil {
		return err
	}
	_, err := c.get(tx, checking, c.keyA)
	return err
}

// depositChecking adds the amount to the checking of A.
func (c *client) depositChecking(tx *txn.Tx) error {
	checking := c.checking
	if err := c.fetch(tx, txn.ForUpdate(checking, c.keyA)); err != nil {
		return err
	}
	a, err := c.get(tx, checking, c.keyA)
	if err != nil {
		return err
	}
	return c.set(tx, 0, checking, c.keyA, a, a.cents+c.amount)
}

// sendPayment moves the amount from the checking of A to that of B, if A has it.
func (c *client) sendPayment(tx *txn.Tx) error {
	checking := c.checking
	if err := c.fetch(tx, txn.ForUpdate(checking, c.keyA), txn.ForUpdate(checking, c.keyB)); err != nil {
		return err
	}
	a, err := c.get(tx, checking, c.keyA)
	if err != nil {
		return err
	}
	if a.cents < c.amount {
		return errInsufficient
	}
	b, err := c.get(tx, checking, c.keyB)
	if err != nil {
		return err
	}
	if err := c.set(tx, 0, checking, c.keyA, a, a.cents-c.amount); err != nil {
		return err
	}
	return c.set(tx, 1, checking, c.keyB, b, b.cents+c.amount)
}

// transactSavings adds the amount, which may be negative, to the savings of A, if
// they do not become negative by it.
func (c *client) transactSavings(tx *txn.Tx) error {
	savings := c.savings
	if err := c.fetch(tx, txn.ForUpdate(savings, c.keyA)); err != nil {
		return err
	}
	s, err := c.get(tx, savings, c.keyA)
	if err != nil {
		return err
	}
	if s.cents+c.amount < 0 {
		return errInsufficient
	}
	return c.set(tx, 0, savings, c.keyA, s, s.cents+c.amount)
}

// writeCheck takes the amount from the checking of A, and a fee if savings and
// checking together do not cover it.
func (c *client) writeCheck(tx *txn.Tx) error {
	savings, checking := c.savings, c.checking
	if err := c.fetch(tx, txn.ForRead(savings, c.keyA), txn.ForUpdate(checking, c.keyA)); err != nil {
		return err
	}
	s, err := c.get(tx, savings, c.keyA)
	if err != nil {
		return err
	}
	a, err := c.get(tx, checking, c.keyA)
	if err != nil {
		return err
	}
	amount := c.amount
	if s.cents+a.cents < amount {
		amount += overdraft
	}
	return c.set(tx, 0, checking, c.keyA, a, a.cents-amount)
}
