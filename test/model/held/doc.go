// Package held compares the program on PostgreSQL with the models of test/model.
//
// Random sequences of a model's steps run in the model and in the program's own functions: claims, deliverers, the
// listener's writes. The tests simulate the broker: its figures, its answers, workers. After each step the database
// must equal the model's state. A step of the program may be several of the model: a batch reads some rows.
package held
