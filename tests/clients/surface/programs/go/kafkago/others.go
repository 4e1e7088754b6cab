package main

import (
	"context"

	"surface/surface"

	"github.com/segmentio/kafka-go"
)

func runRest(client *kafka.Client) {
	on := clients.On(client)
	on.Do("ApiVersions", "those of groups", func(limited context.Context) (any, error) {
		answer, err := client.ApiVersions(limited, &kafka.ApiVersionsRequest{})
		if err != nil {
			return nil, err
		}
		ranges := map[string][]int{}
		for _, each := range answer.ApiKeys {
			if 8 <= each.ApiKey && each.ApiKey <= 16 || each.ApiKey == 42 || each.ApiKey == 47 {
				ranges[each.ApiName] = []int{each.MinVersion, each.MaxVersion}
			}
		}
		return ranges, nil
	})
	entry := kafka.ACLEntry{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: one, ResourcePatternType: kafka.PatternTypeLiteral,
		Principal: "User:me", Host: "*", Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
	}
	on.Call("CreateACLs", "", &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{entry}})
	on.Call("DescribeACLs", "", &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceTypeAny, ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}})
	on.Call("DeleteACLs", "", &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{{
		ResourceTypeFilter: kafka.ResourceTypeAny, ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}}})
	user := surface.Name("user")
	on.Call("AlterUserScramCredentials", "", &kafka.AlterUserScramCredentialsRequest{
		Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: user, Mechanism: kafka.ScramMechanismSha256, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: []byte("no"),
		}},
	})
	on.Call("DescribeUserScramCredentials", "", &kafka.DescribeUserScramCredentialsRequest{
		Users: []kafka.UserScramCredentialsUser{{Name: user}},
	})
	on.Call("AlterClientQuotas", "", &kafka.AlterClientQuotasRequest{
		Entries: []kafka.AlterClientQuotaEntry{{
			Entities: []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: user}},
			Ops:      []kafka.AlterClientQuotaOps{{Key: "request_percentage", Value: 50}},
		}}, ValidateOnly: true,
	})
	on.Call("DescribeClientQuotas", "", &kafka.DescribeClientQuotasRequest{
		Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: "user", Match: user}},
	})
	on.Call("AlterPartitionReassignments", "", &kafka.AlterPartitionReassignmentsRequest{
		Topic: one, Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: 0, BrokerIDs: []int{0}}},
		Timeout: surface.CallTimeout,
	})
	on.Call("ListPartitionReassignments", "", &kafka.ListPartitionReassignmentsRequest{
		Topics: map[string]kafka.ListPartitionReassignmentsRequestTopic{one: {PartitionIndexes: []int{0}}},
	})
	on.Call("ElectLeaders", "", &kafka.ElectLeadersRequest{Topic: one, Partitions: []int{0}, Timeout: surface.CallTimeout})
	on.Call("DeleteTopics", "", &kafka.DeleteTopicsRequest{Topics: []string{two, absent}})
}
