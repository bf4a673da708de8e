package driver

import "time"

// MaxLead is how far ahead of the store's clock the tokens that a grant reserves may be.
const MaxLead = time.Millisecond

// NextTokens is the rule of A3 and A13 for a store whose tokens follow a clock. last is the
// greatest token that was given or reserved so far, and wanted is [Request.HandOffs]. The grant
// has token, and has reserved so many tokens after it. The next call's last is token +
// reserved.
//
// If the clock was set back, token still follows last, but nothing is reserved until the clock
// has caught up: tokens must not run further ahead of it.
func NextTokens(last uint64, clock time.Time, wanted uint64) (token, reserved uint64) {
	now := uint64(clock.UnixMicro())
	token = max(last+1, now)
	if most := now + uint64(MaxLead/time.Microsecond); token < most {
		reserved = min(wanted, most-token)
	}
	return token, reserved
}
