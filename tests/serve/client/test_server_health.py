"""An API server is asked with gRPC's health check."""

from __future__ import annotations

from grpc_health.v1 import health_pb2

from podsched.serve.client.server_health import ETCD, NOT_SERVING, REQUEST


def test_the_question_and_the_answer_are_those_of_grpc_s_health_check() -> None:
    request = health_pb2.HealthCheckRequest(service=ETCD)
    no = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
    assert (request.SerializeToString(), no.SerializeToString()) == (REQUEST, NOT_SERVING)
