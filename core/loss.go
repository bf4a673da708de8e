package core

import "github.com/keyturn/keyturn/core/driver"

// LossReason says how a lease was lost.
type LossReason = driver.LossReason

// The ways to lose a lease; package driver says what each means.
const (
	LossExpired   = driver.LossExpired
	LossTaken     = driver.LossTaken
	LossMaxHold   = driver.LossMaxHold
	LossSuspended = driver.LossSuspended
	LossClosed    = driver.LossClosed
	LossForced    = driver.LossForced
	LossOuter     = driver.LossOuter
)
