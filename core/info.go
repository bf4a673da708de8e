package core

import "github.com/keyturn/keyturn/core/driver"

// What [Engine.Inspect], [Engine.List] and [Engine.ForceRelease] show of a key.
type (
	// LockInfo is what the store knows of a key.
	LockInfo = driver.LockInfo
	// Holder is an owner that has a lease on a key.
	Holder = driver.Holder
	// Waiter is an owner that waits for a key.
	Waiter = driver.Waiter
	// RecordInfo describes the record of a finished execution, without its content.
	RecordInfo = driver.RecordInfo
)
