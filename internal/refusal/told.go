package refusal

import "github.com/keyturn/keyturn/middleware/reasons"

// Told returns what an ErrorHandler gets to know of err, with which the rule of that name refused work
// on key. answer is the default, nil where answers are no errors.
func Told(rule, key string, err, answer error) *reasons.Refusal {
	kind := Of(err)
	r := &reasons.Refusal{Reason: kind.Reason(), Rule: rule, Key: key, Again: kind.Again(), Ran: kind.Ran(), Err: err, Answer: answer}
	if r.Again {
		r.RetryAfter = ClientsRetryAfter(err)
	}
	return r
}
