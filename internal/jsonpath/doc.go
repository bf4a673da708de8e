// Package jsonpath finds the value of a key template's placeholder in a JSON document. It is
// for middlewares whose requests carry JSON.
//
// The first name of a placeholder's path names the document, such as payload in
// {payload.user.id}. The names after it are members of objects.
package jsonpath
