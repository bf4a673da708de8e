package authoring

import "encoding/json"

// Encode returns a result as core.Once records it: as JSON, and bytes as they are.
func Encode[T any](result T) ([]byte, error) {
	if b, ok := any(result).([]byte); ok {
		return b, nil
	}
	return json.Marshal(result)
}

// Decode reads what Encode returned.
func Decode[T any](stored []byte, result *T) error {
	if b, ok := any(result).(*[]byte); ok {
		*b = stored
		return nil
	}
	return json.Unmarshal(stored, result)
}
