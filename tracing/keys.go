package tracing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/tracing/semconv"
)

// mostKeys is how many keys of a claim set are shown.
const mostKeys = 16

// keys decides how keys are shown.
type keys struct {
	secret   []byte
	rawAll   bool
	rawRules []string
}

// hash returns 64 bits of an HMAC (RFC 2104) of the key, which is enough to tell the keys of a
// trace store apart. Nobody can test a guess without the secret. A plain hash of such short and
// regular texts would make that easy.
func (k *keys) hash(key string) string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte(key))
	var sum [sha256.Size]byte
	return hex.EncodeToString(mac.Sum(sum[:0])[:8])
}

func (k *keys) raw(rule string) bool { return k.rawAll || slices.Contains(k.rawRules, rule) }

// name returns the attribute for one key. An invalid key, which only an execution that is about
// to be refused has, may be a megabyte of anything, so it is never shown.
func (k *keys) name(key, rule string) attribute.KeyValue {
	if k.raw(rule) && driver.ValidateKey(key) == nil {
		return semconv.KeyKey.String(key)
	}
	return semconv.KeyHashKey.String(k.hash(key))
}

// describe returns the attributes for claims. One key and a set have attributes with different
// names: backends search strings better than lists, and one name must not have two types.
func (k *keys) describe(claims []core.Claim, rule string) []attribute.KeyValue {
	if len(claims) == 1 {
		return []attribute.KeyValue{k.name(claims[0].Key, rule), semconv.ModeKey.String(modeOf(claims))}
	}
	shown := make([]string, 0, min(len(claims), mostKeys))
	for i, c := range claims {
		switch {
		case i >= mostKeys:
		case k.raw(rule):
			shown = append(shown, c.Key)
		default:
			shown = append(shown, k.hash(c.Key))
		}
	}
	list := semconv.KeyHashesKey
	if k.raw(rule) {
		list = semconv.KeysKey
	}
	return []attribute.KeyValue{list.StringSlice(shown), semconv.ClaimsKey.Int(len(claims)), semconv.ModeKey.String(modeOf(claims))}
}

// modeOf returns the mode of all claims, or "mixed".
func modeOf(claims []core.Claim) string {
	for _, c := range claims {
		if c.Mode != claims[0].Mode {
			return "mixed"
		}
	}
	return claims[0].Mode.String()
}
