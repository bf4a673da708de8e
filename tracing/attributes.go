package tracing

import "go.opentelemetry.io/otel/attribute"

// The spans.
const (
	SpanAcquire = "keyturn.acquire" // from asking to granted or refused
	SpanHold    = "keyturn.hold"    // from granted to released or lost
	SpanOnce    = "keyturn.once"    // a call of core.Engine.Once
)

// The events: on the hold's span but for EventUnlocked, which is on the span
// that is current where the work runs, and EventForced, on the operator's.
const (
	EventExtended      = "keyturn.extended"
	EventForced        = "keyturn.forced"
	EventRenewedLate   = "keyturn.renewed_late"
	EventRenewalFailed = "keyturn.renewal_failed"
	EventLost          = "keyturn.lost"
	EventUnlocked      = "keyturn.unlocked"
)

// The attributes. The package comment has a table of them.
const (
	RuleKey       = attribute.Key("keyturn.rule")
	KeyHashKey    = attribute.Key("keyturn.key_hash")
	KeyHashesKey  = attribute.Key("keyturn.key_hashes")
	KeyKey        = attribute.Key("keyturn.key")
	KeysKey       = attribute.Key("keyturn.keys")
	ClaimsKey     = attribute.Key("keyturn.claims")
	ModeKey       = attribute.Key("keyturn.mode")
	OutcomeKey    = attribute.Key("keyturn.outcome")
	PositionKey   = attribute.Key("keyturn.queue_position")
	QueueKey      = attribute.Key("keyturn.queue")
	AttemptsKey   = attribute.Key("keyturn.attempts")
	StoreKey      = attribute.Key("keyturn.store")
	HandedOffKey  = attribute.Key("keyturn.handed_off")
	WaitKey       = attribute.Key("keyturn.wait")
	TokenKey      = attribute.Key("keyturn.token")
	OwnerKey      = attribute.Key("keyturn.owner")
	HolderKey     = attribute.Key("keyturn.holder")
	TTLKey        = attribute.Key("keyturn.ttl")
	LossReasonKey = attribute.Key("keyturn.loss_reason")
	LateKey       = attribute.Key("keyturn.late")
	HoldersKey    = attribute.Key("keyturn.holders")
	UnlockedKey   = attribute.Key("keyturn.ran_unlocked")
	NotKeptKey    = attribute.Key("keyturn.not_kept")
	ErrorTypeKey  = attribute.Key("error.type") // OpenTelemetry's own
)

// Values of [QueueKey].
const (
	QueueLocal = "local" // in this process, behind others of it
	QueueStore = "store" // at the store, behind those of other processes
)

// RuleOther stands, on measurements, for the rules after the first 1024: somebody
// names rules after requests.
const RuleOther = "_OTHER"
