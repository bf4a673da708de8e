package semconv

import "go.opentelemetry.io/otel/attribute"

// The spans.
const (
	SpanAcquire = "keyturn.acquire" // from the request to the grant or the refusal
	SpanHold    = "keyturn.hold"    // from the grant to the release or the loss
	SpanOnce    = "keyturn.once"    // a call of core.Engine.Once
)

// The events. They are on the hold's span, with two exceptions: EventUnlocked is on the span
// that is current when the work runs, and EventForced on the operator's.
const (
	EventExtended      = "keyturn.extended"
	EventForced        = "keyturn.forced"
	EventRenewedLate   = "keyturn.renewed_late"
	EventRenewalFailed = "keyturn.renewal_failed"
	EventLost          = "keyturn.lost"
	EventUnlocked      = "keyturn.unlocked"
)

// The attributes. The comment of package tracing has a table of them.
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
	LingeredKey   = attribute.Key("keyturn.lingered")
	WaitKey       = attribute.Key("keyturn.wait")
	TokenKey      = attribute.Key("keyturn.token")
	OwnerKey      = attribute.Key("keyturn.owner")
	HolderKey     = attribute.Key("keyturn.holder")
	TTLKey        = attribute.Key("keyturn.ttl")
	LossReasonKey = attribute.Key("keyturn.loss_reason")
	LateKey       = attribute.Key("keyturn.late")
	HoldersKey    = attribute.Key("keyturn.holders")
	UnlockedKey   = attribute.Key("keyturn.ran_unlocked")
	// EarlyKey is true on a hold that its holder ended before its work (core.ReleaseEarly).
	EarlyKey     = attribute.Key("keyturn.early")
	ShadowKey    = attribute.Key("keyturn.shadow")
	NotKeptKey   = attribute.Key("keyturn.not_kept")
	ErrorTypeKey = attribute.Key("error.type") // OpenTelemetry's own
)

// Values of [QueueKey].
const (
	QueueLocal = "local" // in this process, behind its other callers
	QueueStore = "store" // at the store, behind other processes
)

// RuleOther replaces the rule on measurements after the first 1024 rules. A program that has so
// many names its rules after requests.
const RuleOther = "_OTHER"
